#include "tilemesh/types/strided.hpp"

#include <cstring>

#include <fmt/format.h>

#include "layout_boxes.hpp"
#include "nest.hpp"

namespace tilemesh {
namespace {

using detail::Axes;
using detail::IndexRange;
using detail::Nest;
using detail::PairAxes;

void check_layout(const Layout& layout, const Shape& shape, const char* verb) {
  if (layout.is_opaque()) {
    throw Error(ErrorCode::unsupported,
                fmt::format("can't {} layout {}: only backend \"{}\" understands it", verb,
                            layout.to_string(0), layout.opaque().backend));
  }
  layout.check_rank(shape.rank());
}

void check_strides(const Dims& strides, const Shape& shape) {
  if (strides.size() != static_cast<std::size_t>(shape.rank())) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a view of shape {} wants {} strides, got {}", shape.to_string(),
                            shape.rank(), strides.size()));
  }
}

/// One side of a copy.
struct Side {
  DType dtype;
  Axes axes;
};

Side side_of(DType dtype, const Dims& strides) {
  return {dtype, detail::axes_of(strides, size_of(dtype))};
}

Side side_of(DType dtype, const Layout& layout, const Shape& shape) {
  return {dtype, detail::axes_of(layout, shape, size_of(dtype))};
}

using Ranges = std::array<IndexRange, kMaxRank>;

Ranges whole(const Shape& shape) {
  Ranges ranges;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    ranges[static_cast<std::size_t>(dim)] = {0, shape[dim]};
  }
  return ranges;
}

template <class Visit>
void visit_boxes(const PairAxes& axes, const Ranges& ranges, int rank, Visit visit) {
  const auto count = static_cast<std::size_t>(rank);
  detail::for_each_box({axes.data(), count}, {ranges.data(), count}, {}, 0, 0, visit);
}

/// Copies all elements of `shape`; false if the blocks of the two sides don't nest.
bool try_copy(const Side& from, const std::byte* source, const Side& to, std::byte* target,
              const Shape& shape) {
  PairAxes pairs;
  if (!detail::pair_axes(from.axes, to.axes, shape.rank(), pairs)) return false;
  visit_boxes(pairs, whole(shape), shape.rank(),
              [&](const Nest& nest, std::int64_t source_offset, std::int64_t target_offset) {
                detail::copy_nest(nest, source + source_offset, from.dtype, target + target_offset,
                                  to.dtype);
              });
  return true;
}

/// Zeros what `padded` has more than `shape`: per padded dim, what lies past its end and inside the
/// earlier dims.
void zero_padding(const Side& side, std::byte* target, const Shape& shape, const Shape& padded) {
  PairAxes pairs;
  TILEMESH_CHECK(detail::pair_axes(side.axes, side.axes, shape.rank(), pairs),
                 "a layout doesn't nest with itself");
  Ranges ranges = whole(padded);
  for (int dim = 0; dim < shape.rank(); ++dim) {
    IndexRange& range = ranges[static_cast<std::size_t>(dim)];
    range = {shape[dim], padded[dim]};
    visit_boxes(pairs, ranges, shape.rank(),
                [&](const Nest& nest, std::int64_t, std::int64_t offset) {
                  detail::zero_nest(nest, target + offset, side.dtype);
                });
    range = {0, shape[dim]};
  }
}

bool is_dense(const ConstStridedView& view) {
  return view.strides == row_major_strides(view.shape);
}

void copy_bytes(const std::byte* source, std::byte* target, DType dtype, const Shape& shape) {
  const auto bytes = static_cast<std::size_t>(shape.element_count() * size_of(dtype));
  if (bytes != 0) std::memcpy(target, source, bytes);
}

}  // namespace

std::vector<LayoutLoop> layout_loops(const Layout& layout, const Shape& shape) {
  check_layout(layout, shape, "walk over");
  const detail::LayoutLoops loops = detail::loops_of(layout, shape);
  return {loops.begin(), loops.end()};
}

std::int64_t element_offset(const Layout& layout, const Shape& shape, const Dims& index) {
  check_layout(layout, shape, "index into");
  Dims rest = index;
  std::int64_t offset = 0;
  for (const LayoutLoop& loop : detail::loops_of(layout, shape)) {
    std::int64_t& i = rest[static_cast<std::size_t>(loop.dim)];
    offset += i / loop.dim_step * loop.stride;
    i %= loop.dim_step;
  }
  return offset;
}

void copy_strided(const ConstStridedView& source, const StridedView& target) {
  if (source.shape != target.shape) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("can't copy elements of shape {} to shape {}: the shapes must agree",
                            source.shape.to_string(), target.shape.to_string()));
  }
  check_strides(source.strides, source.shape);
  check_strides(target.strides, target.shape);
  if (source.dtype == target.dtype && is_dense(source) && is_dense(target)) {
    return copy_bytes(source.data, target.data, source.dtype, source.shape);
  }
  try_copy(side_of(source.dtype, source.strides), source.data,
           side_of(target.dtype, target.strides), target.data, source.shape);
}

void pack(const ConstStridedView& source, const Layout& layout, DType dtype, std::byte* target) {
  check_layout(layout, source.shape, "pack into");
  check_strides(source.strides, source.shape);
  if (source.dtype == dtype && layout.is_rows() && is_dense(source)) {
    return copy_bytes(source.data, target, dtype, source.shape);
  }
  const Side side = side_of(dtype, layout, source.shape);
  try_copy(side_of(source.dtype, source.strides), source.data, side, target, source.shape);
  zero_padding(side, target, source.shape, layout.padded(source.shape));
}

void unpack(const std::byte* source, DType dtype, const Layout& layout, const StridedView& target) {
  check_layout(layout, target.shape, "unpack");
  check_strides(target.strides, target.shape);
  if (target.dtype == dtype && layout.is_rows() && is_dense(target)) {
    return copy_bytes(source, target.data, dtype, target.shape);
  }
  try_copy(side_of(dtype, layout, target.shape), source, side_of(target.dtype, target.strides),
           target.data, target.shape);
}

void relayout(const std::byte* source, DType source_dtype, const Layout& source_layout,
              std::byte* target, DType target_dtype, const Layout& target_layout,
              const Shape& shape) {
  if (source_dtype == target_dtype && source_layout == target_layout) {
    const auto bytes = static_cast<std::size_t>(source_layout.bytes(shape, size_of(source_dtype)));
    if (bytes != 0) std::memcpy(target, source, bytes);
    return;
  }
  check_layout(source_layout, shape, "convert from");
  check_layout(target_layout, shape, "convert to");
  const Side from = side_of(source_dtype, source_layout, shape);
  const Side to = side_of(target_dtype, target_layout, shape);
  if (!try_copy(from, source, to, target, shape)) {
    // Blocks such as 3 and 4 on one dim: rows nest with both.
    const Layout rows = Layout::rows();
    const Side between = side_of(target_dtype, rows, shape);
    std::vector<std::byte> buffer(
        static_cast<std::size_t>(rows.bytes(shape, size_of(target_dtype))));
    try_copy(from, source, between, buffer.data(), shape);
    try_copy(between, buffer.data(), to, target, shape);
  }
  zero_padding(to, target, shape, target_layout.padded(shape));
}

}  // namespace tilemesh
