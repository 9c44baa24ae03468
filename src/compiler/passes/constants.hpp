#pragma once

#include <optional>
#include <vector>

#include "tilemesh/compiler/graph.hpp"

namespace tilemesh::passes {

/// True for the dtypes whose arithmetic passes may rearrange: f32, f16, bf16.
bool is_mapped(DType dtype);

/// The value of a constant whose elements are all the same, up to a size where looking is cheap.
/// Integers beyond 2^53 give none.
std::optional<double> splat(const Graph& graph, GraphValueId id);
/// True if two numbers are the same f32, or neighbours: one of them may have been written with
/// fewer digits.
bool is_about(double a, double b);

/// The elements as f32.
std::vector<float> to_floats(const ConstantData& data);
ConstantData from_floats(DType dtype, const Shape& shape, const std::vector<float>& values);

/// A constant's elements one per index of dim `dim` of `shape`, if it broadcasts to `shape` along
/// that dim alone: [C,1,1], [1,C,1,1] or a scalar for dim 1 of a rank-4 shape.
std::optional<std::vector<float>> per_index(const Graph& graph, GraphValueId id, const Shape& shape,
                                            int dim);

}  // namespace tilemesh::passes
