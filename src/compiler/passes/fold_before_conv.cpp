#include <algorithm>
#include <optional>

#include "compiler/passes/constants.hpp"
#include "compiler/passes/pass.hpp"
#include "compiler/passes/rewriter.hpp"

namespace tilemesh::passes {
namespace {

using Integers = std::vector<std::int64_t>;

bool is_padded(const GraphNode& conv) {
  return std::ranges::any_of(conv.attributes.integers("pads"),
                             [](std::int64_t pad) { return pad != 0; });
}

// conv(alpha * x + beta) is a conv with other weights and bias; a padded border has no beta.
bool fold_linear(Rewriter& rewriter, GraphNode& node) {
  const Graph& graph = rewriter.graph();
  const GraphNode* linear = rewriter.made_only_for(node, node.inputs[0], "linear");
  if (linear == nullptr || !graph.is_constant(node.inputs[1])) return false;
  const double alpha = linear->attributes.number("alpha");
  const double beta = linear->attributes.number("beta");
  if (beta != 0 && is_padded(node)) return false;
  const bool has_bias = node.inputs.size() > 2 && node.inputs[2] != kNoValue;
  if (has_bias && !graph.is_constant(node.inputs[2])) return false;

  const ConstantData& weights = *graph[node.inputs[1]].constant;
  const Shape channels{weights.shape[0]};
  std::vector<float> values = to_floats(weights);
  std::vector<float> bias(static_cast<std::size_t>(channels[0]), 0.0f);
  if (has_bias) bias = to_floats(*graph[node.inputs[2]].constant);
  const std::size_t each = bias.empty() ? 0 : values.size() / bias.size();
  for (std::size_t c = 0; c < bias.size(); ++c) {
    double sum = 0;
    for (std::size_t i = c * each; i < (c + 1) * each; ++i) {
      sum += values[i];
      values[i] = static_cast<float>(values[i] * alpha);
    }
    bias[c] = static_cast<float>(bias[c] + beta * sum);
  }
  std::vector<GraphValueId> inputs{
      linear->inputs[0],
      rewriter.constant(node.name + ".weights", from_floats(weights.dtype, weights.shape, values))};
  if (has_bias || beta != 0) {
    inputs.push_back(
        rewriter.constant(node.name + ".bias", from_floats(weights.dtype, channels, bias)));
  }
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
  return fold_padding(rewriter, node) || fold_linear(rewriter, node);
}

}  // namespace

bool fold_before_conv(Graph& graph) {
  return rewrite(graph, fold);
}

}  // namespace tilemesh::passes
