#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tilemesh/base/inline_vector.hpp"

namespace tilemesh {

inline constexpr int kMaxMeshAxes = 3;

/// Where a device stands in a mesh: one index per axis.
using MeshCoord = InlineVector<std::int32_t, kMaxMeshAxes>;
/// "(0,1)"
std::string to_string(const MeshCoord& coord);

/// The extent of a mesh, one to three axes, each at least 1; devices are numbered row-major.
/// Throws invalid_argument for no axes, more than three, or a size below 1.
class MeshShape {
 public:
  MeshShape() : sizes_{1, 1} {}
  MeshShape(std::initializer_list<std::int32_t> sizes);
  explicit MeshShape(std::span<const std::int32_t> sizes);

  int axes() const { return static_cast<int>(sizes_.size()); }
  std::int32_t operator[](int axis) const { return sizes_[static_cast<std::size_t>(axis)]; }
  std::span<const std::int32_t> sizes() const { return sizes_; }
  int device_count() const;

  bool contains(const MeshCoord& coord) const;
  /// Row-major index of a coordinate; throws invalid_argument if it is outside.
  int index_of(const MeshCoord& coord) const;
  MeshCoord coord_of(int index) const;

  /// "1x2"
  std::string to_string() const;
  /// The inverse; throws invalid_argument.
  static MeshShape parse(std::string_view text);

  friend bool operator==(const MeshShape&, const MeshShape&) = default;

 private:
  InlineVector<std::int32_t, kMaxMeshAxes> sizes_;
};

}  // namespace tilemesh
