#pragma once

#include <cstdint>
#include <optional>

#include <dnnl.hpp>

#include "tilemesh/ops/op.hpp"

namespace tilemesh::cpu::onednn {

/// Our layouts and oneDNN's blocked memory descriptors say the same, so that each has its form in
/// the other. Every describe function throws Refused, with the reason, for what can't be said:
/// opaque layouts, dims of size zero, dims and strides beyond an int, element types that oneDNN
/// lacks.

/// f32, f16, bf16, i32, i8, u8; bool as u8.
dnnl::memory::data_type data_type(DType dtype);

/// Whether oneDNN's kernels can count to `number`: they keep sizes, strides and offsets in ints.
bool fits_an_int(std::int64_t number);

/// An element type of the same size that oneDNN moves without changing a bit; throws Refused if
/// there is none.
DType carrier_of(DType dtype);

/// The descriptor of a shard; rank 0 becomes one dim of size 1.
dnnl::memory::desc describe(DType dtype, const Shape& shape, const Layout& layout);
dnnl::memory::desc describe(const OperandType& operand);

/// A descriptor whose layout a primitive may choose.
dnnl::memory::desc describe_any(DType dtype, const dnnl::memory::dims& dims);

dnnl::memory::dims dims_of(const Shape& shape);

/// The layout of a descriptor; nullopt for what a Layout can't say (extra data, offsets, gaps).
std::optional<Layout> read_layout(const dnnl::memory::desc& desc);

/// Weights [M, ...] of `groups` groups as oneDNN wants them, [groups, M / groups, ...]; the plain
/// descriptor for one group.
dnnl::memory::desc describe_grouped(DType dtype, const Shape& shape, const Layout& layout,
                                    std::int64_t groups);
/// The inverse: the layout of [M, ...] from a descriptor of [groups, M / groups, ...].
std::optional<Layout> read_grouped_layout(const dnnl::memory::desc& desc, std::int64_t groups);

}  // namespace tilemesh::cpu::onednn
