#include <algorithm>
#include <numeric>
#include <vector>

#include "compiler/passes/constants.hpp"
#include "compiler/passes/pass.hpp"
#include "compiler/passes/rewriter.hpp"
#include "compiler/passes/rounding.hpp"

namespace tilemesh::passes {
namespace {

bool swaps_last_two(const std::vector<std::int64_t>& order) {
  const auto rank = static_cast<std::int64_t>(order.size());
  for (std::int64_t d = 0; d < rank; ++d) {
    const std::int64_t wanted = d < rank - 2 ? d : 2 * rank - 3 - d;
    if (order[static_cast<std::size_t>(d)] != wanted) return false;
  }
  return rank >= 2;
}

bool fold_transpose(Rewriter& rewriter, GraphNode& node) {
  bool changed = false;
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}}) {
    const GraphNode* transpose = rewriter.made_by(node.inputs[at], "transpose");
    if (transpose == nullptr || !swaps_last_two(transpose->attributes.integers("order"))) continue;
    const std::string_view name = at == 0 ? "transpose_a" : "transpose_b";
    Attributes attributes = node.attributes;
    attributes.set(name, 1 - attributes.integer(name));
    std::vector<GraphValueId> inputs = node.inputs;
    inputs[at] = transpose->inputs[0];
    rewriter.become(node, "matmul", std::move(inputs), std::move(attributes));
    changed = true;
  }
  return changed;
}

// (x @ W) * c is x @ (W * c) for a constant W of f32: in other types W would be rounded again.
bool fold_scale(Rewriter& rewriter, GraphNode& node) {
  const double scale = node.attributes.number("alpha");
  if (node.attributes.number("beta") != 0 || !may_scale_weights(scale)) return false;
  const GraphNode* matmul = rewriter.made_only_for(node, node.inputs[0], "matmul");
  if (matmul == nullptr || !rewriter.graph().is_constant(matmul->inputs[1])) return false;
  // Weights with another reader would have to be stored twice.
  if (rewriter.index().uses(matmul->inputs[1]) != 1) return false;
  const ConstantData& weights = *rewriter.graph()[matmul->inputs[1]].constant;
  if (weights.dtype != DType::f32) return false;
  const auto values = scaled(to_floats(weights), [&](std::size_t) { return scale; });
  if (!values) return false;
  const GraphValueId other = rewriter.constant(matmul->name + ".weights",
                                               from_floats(weights.dtype, weights.shape, *values));
  const Attributes attributes = matmul->attributes;
  const GraphValueId x = matmul->inputs[0];
  rewriter.become(node, "matmul", {x, other}, attributes);
  return true;
}

// (x * c) @ (y * d) is (x @ y) * (c * d): there it fuses into the product.
bool move_scale_behind(Rewriter& rewriter, GraphNode& node) {
  if (node.inputs[0] == node.inputs[1]) return false;
  const DType dtype = rewriter.type(node.outputs[0]).dtype;
  std::vector<GraphValueId> inputs = node.inputs;
  double scale = 1;
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}}) {
    const GraphNode* linear = rewriter.made_only_for(node, node.inputs[at], "linear");
    if (linear == nullptr || linear->attributes.number("beta") != 0) continue;
    const double factor = linear->attributes.number("alpha");
    if (!may_move_behind(factor, dtype) || !may_move_behind(scale * factor, dtype)) continue;
    inputs[at] = linear->inputs[0];
    scale *= factor;
  }
  if (inputs == node.inputs) return false;
  const GraphValueId product = rewriter.insert("matmul", std::move(inputs), node.attributes);
  rewriter.become(node, "linear", {product}, {{"alpha", scale}, {"beta", -0.0}});
  return true;
}

bool is_mean_over_space(const Rewriter& rewriter, const GraphNode& node) {
  const int rank = rewriter.type(node.inputs[0]).shape.rank();
  // A mean over the last dim of rank 3 is more often half of a layer norm.
  if (rank < 4 || rank > 5 || node.attributes.integer("keepdims") != 1) return false;
  std::vector<std::int64_t> axes = node.attributes.integers("axes");
  std::ranges::sort(axes);
  std::vector<std::int64_t> space(static_cast<std::size_t>(rank - 2));
  std::iota(space.begin(), space.end(), 2);
  return axes == space;
}

bool simplify(Rewriter& rewriter, GraphNode& node) {
  if (!node.epilogue.empty() || node.outputs.size() != 1) return false;
  const std::string_view op = node.def->name;
  if (op == "matmul" && fold_transpose(rewriter, node)) return true;
  if (!is_mapped(rewriter.type(node.outputs[0]).dtype)) return false;
  if (op == "matmul") return move_scale_behind(rewriter, node);
  if (op == "linear") return fold_scale(rewriter, node);
  if (op == "reduce_mean" && is_mean_over_space(rewriter, node)) {
    rewriter.become(node, "global_average_pool", {node.inputs[0]});
    return true;
  }
  return false;
}

}  // namespace

bool simplify_linear_algebra(Graph& graph) {
  return rewrite(graph, simplify);
}

}  // namespace tilemesh::passes
