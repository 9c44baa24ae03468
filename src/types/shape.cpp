#include "tilemesh/types/shape.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilemesh/base/math.hpp"

namespace tilemesh {
namespace {

std::string text_of(const Dims& sizes) {
  return fmt::format("[{}]", fmt::join(sizes.begin(), sizes.end(), ","));
}

/// The product of all sizes. A zero among them doesn't excuse an overflow of the others: strides
/// are computed from these.
std::int64_t checked_count(const Dims& sizes) {
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t size : sizes) {
    if (size < 0) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("shape {} has the negative size {}: sizes are 0 or more",
                              text_of(sizes), size));
    }
    if (size == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(product, size, &product)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("shape {} has more than 2^63-1 elements", text_of(sizes)));
    }
  }
  return empty ? 0 : product;
}

Dims dims_of(std::span<const std::int64_t> sizes) {
  if (sizes.size() > static_cast<std::size_t>(kMaxRank)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("shape [{}] has {} dims, at most {} are supported",
                            fmt::join(sizes.begin(), sizes.end(), ","), sizes.size(), kMaxRank));
  }
  return {sizes.begin(), sizes.end()};
}

}  // namespace

Shape::Shape(std::initializer_list<std::int64_t> sizes)
    : Shape(std::span<const std::int64_t>(sizes.begin(), sizes.size())) {}

Shape::Shape(const Dims& sizes) : sizes_(sizes), element_count_(checked_count(sizes)) {}

Shape::Shape(std::span<const std::int64_t> sizes) : Shape(dims_of(sizes)) {}

Shape Shape::with(int dim, std::int64_t size) const {
  TILEMESH_CHECK(dim >= 0 && dim < rank(), "a dim outside the shape");
  Dims sizes = sizes_;
  sizes[static_cast<std::size_t>(dim)] = size;
  return Shape(sizes);
}

std::string Shape::to_string() const {
  return text_of(sizes_);
}

Dims row_major_strides(const Shape& shape) {
  Dims strides;
  strides.resize(static_cast<std::size_t>(shape.rank()));
  std::int64_t stride = 1;
  for (int dim = shape.rank() - 1; dim >= 0; --dim) {
    strides[static_cast<std::size_t>(dim)] = stride;
    stride *= std::max<std::int64_t>(shape[dim], 1);
  }
  return strides;
}

}  // namespace tilemesh
