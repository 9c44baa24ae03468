#include <algorithm>
#include <optional>

#include "compiler/passes/constants.hpp"
#include "compiler/passes/pass.hpp"
#include "compiler/passes/rewriter.hpp"
#include "compiler/passes/rounding.hpp"

namespace tilemesh::passes {
namespace {

using Integers = std::vector<std::int64_t>;

// conv(alpha * x) is a conv with other weights. A sum stays where it is: what it cancels
// (conv(x - 1e6)) would first be multiplied and summed up.
bool fold_scale(Rewriter& rewriter, GraphNode& node) {
  const Graph& graph = rewriter.graph();
  const GraphNode* linear = rewriter.made_only_for(node, node.inputs[0], "linear");
  if (linear == nullptr || !graph.is_constant(node.inputs[1])) return false;
  const double alpha = linear->attributes.number("alpha");
  const double beta = linear->attributes.number("beta");
  const ConstantData& weights = *graph[node.inputs[1]].constant;
  if (beta != 0 || weights.dtype != DType::f32 || !may_scale_weights(alpha)) return false;
  const auto values = scaled(to_floats(weights), [&](std::size_t) { return alpha; });
  if (!values) return false;
  std::vector<GraphValueId> inputs = node.inputs;
  inputs[0] = linear->inputs[0];
  inputs[1] =
      rewriter.constant(node.name + ".weights", from_floats(weights.dtype, weights.shape, *values));
  rewriter.become(node, "conv", std::move(inputs), Attributes(node.attributes));
  return true;
}

// The padding of the spatial dims, begins then ends, if it is of zeros and there is no other.
std::optional<Integers> zero_padding(const Rewriter& rewriter, const GraphNode& pad) {
  if (pad.attributes.text("mode") != "constant") return std::nullopt;
  const bool has_value = pad.inputs.size() > 1 && pad.inputs[1] != kNoValue;
  if (has_value && splat(rewriter.graph(), pad.inputs[1]) != 0.0) return std::nullopt;
  const Integers& all = pad.attributes.integers("pads");
  const std::size_t rank = all.size() / 2;
  Integers spatial;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool is_spatial = i % rank >= 2;
    if (all[i] < 0 || (!is_spatial && all[i] != 0)) return std::nullopt;
    if (is_spatial) spatial.push_back(all[i]);
  }
  return spatial;
}

bool fold_padding(Rewriter& rewriter, GraphNode& node) {
  const GraphNode* pad = rewriter.made_only_for(node, node.inputs[0], "pad");
  if (pad == nullptr) return false;
  std::optional<Integers> pads = zero_padding(rewriter, *pad);
  if (!pads) return false;
  const Integers own = node.attributes.integers("pads");
  for (std::size_t i = 0; i < pads->size(); ++i)
    (*pads)[i] += own[i];
  Attributes attributes = node.attributes;
  attributes.set("pads", std::move(*pads));
  std::vector<GraphValueId> inputs = node.inputs;
  inputs[0] = pad->inputs[0];
  rewriter.become(node, "conv", std::move(inputs), std::move(attributes));
  return true;
}

bool fold(Rewriter& rewriter, GraphNode& node) {
  if (node.def->name != "conv" || !node.epilogue.empty()) return false;
  if (!is_mapped(rewriter.type(node.outputs[0]).dtype)) return false;
  return fold_padding(rewriter, node) || fold_scale(rewriter, node);
}

}  // namespace

bool fold_before_conv(Graph& graph) {
  return rewrite(graph, fold);
}

}  // namespace tilemesh::passes
