#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tilemesh/compiler/graph.hpp"
#include "tilemesh/compiler/program_builder.hpp"

#include "compiler/lower.hpp"

/// What the compiler's tests share: a target that wants blocked layouts, programs run on host
/// memory by the references, random graphs, comparison.
namespace tilemesh::testing {

using Values = std::map<std::string, ConstantData>;

/// A target that takes every epilogue, wants aBcd4b for conv and packed weights for matmul, lets
/// `map` and pooling follow their inputs, and runs the rest in rows.
const Target& blocked_target();

/// The same with channels last for conv.
const Target& channels_last_target();

ConstantData floats(const Shape& shape, std::vector<float> values);
ConstantData random_data(DType dtype, const Shape& shape, std::mt19937& random);
/// Random values for a graph's inputs.
Values random_inputs(const Graph& graph, std::uint32_t seed);

/// Empty if the two agree within the tolerance of their dtype (NaN equals NaN); else what differs.
std::string difference(const ConstantData& got, const ConstantData& wanted, double tolerance);

/// Runs a program on host memory, device after device, each op by its reference in the planned
/// storage; memory that wasn't written holds NaNs. Outputs are put together over the mesh.
std::vector<ConstantData> execute(const Program& program, std::span<const std::byte> constants,
                                  const Values& inputs);

/// Lowers a graph, verifies the program, executes it.
std::vector<ConstantData> lower_and_execute(const Graph& graph, const Target& target,
                                            const Values& inputs, const MeshShape& mesh = {1, 1},
                                            const ShardWishes& wishes = {});

/// A random program of about `op_count` ops on small shapes.
Graph random_graph(std::uint32_t seed, int op_count);

/// The ops of a graph in order of execution, "conv relu matmul", branches as "if(.. | ..)".
std::string op_names(const Graph& graph);

}  // namespace tilemesh::testing
