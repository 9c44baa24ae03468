#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tilemesh/types/dtype.hpp"
#include "tilemesh/types/layout.hpp"
#include "tilemesh/types/shape.hpp"

namespace tilemesh {

/// Elements of logical shape `shape` in memory; strides in elements, which may be zero or negative
/// (then `data` points at logical index 0). It owns nothing.
struct StridedView {
  std::byte* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  Dims strides;
};
struct ConstStridedView {
  const std::byte* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  Dims strides;

  ConstStridedView() = default;
  ConstStridedView(const std::byte* first, DType type, const Shape& extent, const Dims& steps)
      : data(first), dtype(type), shape(extent), strides(steps) {}
  ConstStridedView(const StridedView& view)  // NOLINT(google-explicit-constructor)
      : data(view.data), dtype(view.dtype), shape(view.shape), strides(view.strides) {}
};

/// One loop of the nest that visits a layout's memory: `size` steps of `stride` elements, over
/// logical dim `dim` in steps of `dim_step` indices.
struct LayoutLoop {
  int dim = 0;
  std::int64_t size = 0;
  std::int64_t dim_step = 0;
  std::int64_t stride = 0;
};
/// The loops of a (non-opaque) layout over the padded shape, outermost first; strides descend to 1.
std::vector<LayoutLoop> layout_loops(const Layout& layout, const Shape& shape);

/// Offset in elements of a logical index in a layout. For tests and references, not for hot loops.
std::int64_t element_offset(const Layout& layout, const Shape& shape, const Dims& index);

/// Copies strided elements into strided memory of the same shape, converting the element type
/// (float to integer truncates towards zero and saturates at the type's ends, NaN gives 0; to bool:
/// not zero; integers wrap; as ONNX Cast from version 13, where it is defined).
void copy_strided(const ConstStridedView& source, const StridedView& target);

/// Fills a shard in `layout` (padding becomes zero) from strided elements of its logical shape.
/// `target` has layout.bytes(shape, size) bytes. Throws unsupported for opaque layouts.
void pack(const ConstStridedView& source, const Layout& layout, DType dtype, std::byte* target);

/// The inverse of pack: reads a shard in `layout` of logical shape `target.shape`.
void unpack(const std::byte* source, DType dtype, const Layout& layout, const StridedView& target);

/// From one layout and dtype to another; shape is the logical shape of both. Same layouts and
/// dtypes: one memcpy.
void relayout(const std::byte* source, DType source_dtype, const Layout& source_layout,
              std::byte* target, DType target_dtype, const Layout& target_layout,
              const Shape& shape);

}  // namespace tilemesh
