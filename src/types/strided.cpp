#include "tilemesh/types/strided.hpp"

#include <array>
#include <cstring>

#include <fmt/format.h>

#include "convert.hpp"

namespace tilemesh {
namespace {

/// Per dim the offset in elements of every index: offsets of strided memory and of layouts alike
/// are sums of one term per dim.
using Offsets = std::array<std::vector<std::int64_t>, kMaxRank>;

Offsets offsets_of(const Shape& shape, const Dims& strides) {
  Offsets offsets;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    for (std::int64_t i = 0; i < shape[dim]; ++i) {
      offsets[static_cast<std::size_t>(dim)].push_back(i * strides[static_cast<std::size_t>(dim)]);
    }
  }
  return offsets;
}

Offsets offsets_of(const Shape& shape, const Layout& layout) {
  Offsets offsets;
  const Dims zero = [&] {
    Dims dims;
    dims.resize(static_cast<std::size_t>(shape.rank()));
    return dims;
  }();
  for (int dim = 0; dim < shape.rank(); ++dim) {
    Dims index = zero;
    for (std::int64_t i = 0; i < shape[dim]; ++i) {
      index[static_cast<std::size_t>(dim)] = i;
      offsets[static_cast<std::size_t>(dim)].push_back(element_offset(layout, shape, index));
    }
  }
  return offsets;
}

struct Copy {
  const Shape& shape;
  Offsets from;
  Offsets to;
  detail::ConvertRun convert;
  std::int64_t source_bytes;
  std::int64_t target_bytes;

  void run(const std::byte* source, std::byte* target, int dim) const {
    if (dim == shape.rank()) {
      convert(source, target, 1);
      return;
    }
    const auto d = static_cast<std::size_t>(dim);
    for (std::size_t i = 0; i < from[d].size(); ++i) {
      run(source + from[d][i] * source_bytes, target + to[d][i] * target_bytes, dim + 1);
    }
  }
};

void copy(const std::byte* source, DType source_dtype, Offsets from, std::byte* target,
          DType target_dtype, Offsets to, const Shape& shape) {
  const Copy copy{shape,
                  std::move(from),
                  std::move(to),
                  detail::convert_run(source_dtype, target_dtype),
                  size_of(source_dtype),
                  size_of(target_dtype)};
  copy.run(source, target, 0);
}

void check_not_opaque(const Layout& layout, const char* verb) {
  if (layout.is_opaque()) {
    throw Error(ErrorCode::unsupported,
                fmt::format("can't {} the layout {}: only backend \"{}\" understands it", verb,
                            layout.to_string(0), layout.opaque().backend));
  }
}

void check_same_shape(const ConstStridedView& source, const StridedView& target) {
  if (source.shape != target.shape) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("can't copy elements of shape {} to shape {}: the shapes must agree",
                            source.shape.to_string(), target.shape.to_string()));
  }
}

}  // namespace

std::vector<LayoutLoop> layout_loops(const Layout& layout, const Shape& shape) {
  check_not_opaque(layout, "walk over");
  layout.check_rank(shape.rank());
  const Shape padded = layout.padded(shape);
  std::vector<LayoutLoop> loops;
  loops.reserve(static_cast<std::size_t>(shape.rank()) + layout.blocks().size());
  Dims step;
  for (int dim = 0; dim < shape.rank(); ++dim)
    step.push_back(layout.block_of(dim));
  for (const std::int8_t dim : layout.order(shape.rank())) {
    const std::int64_t block = step[static_cast<std::size_t>(dim)];
    loops.push_back({dim, padded[dim] / block, block, 1});
  }
  for (const Layout::Block& block : layout.blocks()) {
    std::int64_t& remaining = step[static_cast<std::size_t>(block.dim)];
    remaining /= block.size;
    loops.push_back({block.dim, block.size, remaining, 1});
  }
  std::int64_t stride = 1;
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) {
    loop->stride = stride;
    stride *= std::max<std::int64_t>(loop->size, 1);
  }
  return loops;
}

std::int64_t element_offset(const Layout& layout, const Shape& shape, const Dims& index) {
  Dims rest = index;
  std::int64_t offset = 0;
  for (const LayoutLoop& loop : layout_loops(layout, shape)) {
    std::int64_t& i = rest[static_cast<std::size_t>(loop.dim)];
    offset += i / loop.dim_step * loop.stride;
    i %= loop.dim_step;
  }
  return offset;
}

void copy_strided(const ConstStridedView& source, const StridedView& target) {
  check_same_shape(source, target);
  copy(source.data, source.dtype, offsets_of(source.shape, source.strides), target.data,
       target.dtype, offsets_of(target.shape, target.strides), source.shape);
}

void pack(const ConstStridedView& source, const Layout& layout, DType dtype, std::byte* target) {
  check_not_opaque(layout, "pack into");
  layout.check_rank(source.shape.rank());
  if (layout.has_padding(source.shape)) {
    std::memset(target, 0, static_cast<std::size_t>(layout.bytes(source.shape, size_of(dtype))));
  }
  copy(source.data, source.dtype, offsets_of(source.shape, source.strides), target, dtype,
       offsets_of(source.shape, layout), source.shape);
}

void unpack(const std::byte* source, DType dtype, const Layout& layout, const StridedView& target) {
  check_not_opaque(layout, "unpack");
  layout.check_rank(target.shape.rank());
  copy(source, dtype, offsets_of(target.shape, layout), target.data, target.dtype,
       offsets_of(target.shape, target.strides), target.shape);
}

void relayout(const std::byte* source, DType source_dtype, const Layout& source_layout,
              std::byte* target, DType target_dtype, const Layout& target_layout,
              const Shape& shape) {
  if (source_dtype == target_dtype && source_layout == target_layout) {
    const auto bytes = static_cast<std::size_t>(source_layout.bytes(shape, size_of(source_dtype)));
    if (bytes != 0) std::memcpy(target, source, bytes);
    return;
  }
  check_not_opaque(source_layout, "convert from");
  check_not_opaque(target_layout, "convert to");
  source_layout.check_rank(shape.rank());
  target_layout.check_rank(shape.rank());
  if (target_layout.has_padding(shape)) {
    std::memset(target, 0,
                static_cast<std::size_t>(target_layout.bytes(shape, size_of(target_dtype))));
  }
  copy(source, source_dtype, offsets_of(shape, source_layout), target, target_dtype,
       offsets_of(shape, target_layout), shape);
}

}  // namespace tilemesh
