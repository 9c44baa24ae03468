#pragma once

#include <span>

#include "tilemesh/ops/op.hpp"

namespace tilemesh::ops {

// The rows of the table of ops, one array per theme; table.cpp sorts them together.
std::span<const OpDef> unary_ops();
std::span<const OpDef> binary_ops();
std::span<const OpDef> compare_ops();
std::span<const OpDef> map_ops();
std::span<const OpDef> matmul_ops();
std::span<const OpDef> conv_ops();
std::span<const OpDef> einsum_ops();
std::span<const OpDef> pool_ops();
std::span<const OpDef> norm_ops();
std::span<const OpDef> softmax_ops();
std::span<const OpDef> reduce_ops();
std::span<const OpDef> movement_ops();
std::span<const OpDef> rearrange_ops();
std::span<const OpDef> resize_ops();
std::span<const OpDef> index_ops();
std::span<const OpDef> search_ops();
std::span<const OpDef> recurrent_ops();
std::span<const OpDef> grid_sample_ops();
std::span<const OpDef> roi_ops();
std::span<const OpDef> bounded_ops();
std::span<const OpDef> suppression_ops();
std::span<const OpDef> column_ops();
std::span<const OpDef> fourier_ops();
std::span<const OpDef> determinant_ops();
std::span<const OpDef> ngram_ops();
std::span<const OpDef> bit_ops();
std::span<const OpDef> cumulative_ops();
std::span<const OpDef> narrow_cast_ops();
std::span<const OpDef> quantize_ops();
std::span<const OpDef> integer_product_ops();
std::span<const OpDef> quantized_arithmetic_ops();

}  // namespace tilemesh::ops
