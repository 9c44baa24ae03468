#pragma once

#include <span>
#include <string_view>

#include "tilemesh/compiler/graph.hpp"
#include "tilemesh/ops/target.hpp"

/// Each pass changes a graph, keeps its meaning, and says whether it changed anything. What it may
/// do to numbers is said in rounding.hpp. Dead nodes that it leaves are removed by
/// remove_dead_code.
namespace tilemesh::passes {

/// Drops nodes, branch results and optional outputs that nobody reads. Keeps what may fail.
bool remove_dead_code(Graph& graph);
/// Replaces branches on a known condition by the side that is taken.
bool inline_known_branches(Graph& graph);
/// Equal constants become one, and equal calls on equal inputs.
bool merge_equal(Graph& graph);
/// Calls on constants become constants, but where that would cost much memory.
bool fold_constants(Graph& graph);
/// Identities of every kind go; chains of reshapes and of transposes become one.
bool remove_no_ops(Graph& graph);
/// Arithmetic with scalar constants becomes `linear`, some powers become products.
bool simplify_arithmetic(Graph& graph);
/// Products that spell swish, hard_swish, hard_sigmoid and gelu.
bool find_activations(Graph& graph);
/// Chains of means and differences that spell layer_normalization; scale and bias around it.
bool find_layer_norm(Graph& graph);
/// Batch norm and per-channel arithmetic after conv and conv_transpose of f32 go into their
/// weights; other batch norms become arithmetic.
bool fold_into_weights(Graph& graph);
/// Zero padding and scalar factors before a conv go into its attributes and weights.
bool fold_before_conv(Graph& graph);
/// Transposes before a matmul become its attributes; means over all of space become pooling.
bool simplify_linear_algebra(Graph& graph);
/// A product with constant weights that is split by columns becomes one product for each part: the
/// parts needn't be copied, and each can be cut over devices by its own columns.
bool split_products(Graph& graph);

/// Elementwise calls on floats become `map` chains, and chains the epilogue of the call before them
/// where the target agrees. The last pass: others don't look into chains.
bool fuse_elementwise(Graph& graph, const Target& target);

/// Results of types that the target computes in a wider one (f16 in f32) are kept in the wider one
/// from op to op, and rounded where the program gives them away or the graph casts them. Constants
/// are widened with them, once. The first pass: the others see the types that are computed in.
bool widen_arithmetic(Graph& graph, const Target& target);

struct NamedPass {
  std::string_view name;
  bool (*run)(Graph& graph) = nullptr;
};
/// All that ask no target, in the order in which they are run, round by round until none changes.
std::span<const NamedPass> simplifications();

}  // namespace tilemesh::passes
