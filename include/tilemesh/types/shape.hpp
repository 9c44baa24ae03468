#pragma once

#include <cstdint>
#include <string>

#include "tilemesh/base/inline_vector.hpp"

namespace tilemesh {

inline constexpr int kMaxRank = 8;

/// A list of one number per dim, at most kMaxRank; never allocates.
using Dims = InlineVector<std::int64_t, kMaxRank>;

/// A tensor's logical extent, one non-negative size per dim; rank 0 is a scalar of one element.
/// A value; checked when made: a negative size or a product over 2^63-1 throws invalid_argument.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes);
  explicit Shape(const Dims& sizes);
  explicit Shape(std::span<const std::int64_t> sizes);

  int rank() const { return static_cast<int>(sizes_.size()); }
  std::int64_t operator[](int dim) const { return sizes_[static_cast<std::size_t>(dim)]; }
  const Dims& sizes() const { return sizes_; }
  auto begin() const { return sizes_.begin(); }
  auto end() const { return sizes_.end(); }

  /// Product of all sizes; 1 for rank 0.
  std::int64_t element_count() const { return element_count_; }

  /// The same shape with one size changed.
  Shape with(int dim, std::int64_t size) const;

  /// "[2,3]"; "[]" for rank 0.
  std::string to_string() const;

  friend bool operator==(const Shape& a, const Shape& b) { return a.sizes_ == b.sizes_; }

 private:
  Dims sizes_;
  std::int64_t element_count_ = 1;
};

/// Strides in elements of a dense row-major array of this shape.
Dims row_major_strides(const Shape& shape);

}  // namespace tilemesh
