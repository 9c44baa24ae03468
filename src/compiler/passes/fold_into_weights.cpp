#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "compiler/passes/constants.hpp"
#include "compiler/passes/pass.hpp"
#include "compiler/passes/rewriter.hpp"

namespace tilemesh::passes {
namespace {

// y = scale * x + shift for each channel (dim 1).
struct ChannelAffine {
  GraphValueId x = kNoValue;
  std::vector<float> scale, shift;
};

std::optional<ChannelAffine> batch_norm_affine(const Graph& graph, const GraphNode& node) {
  const Shape& shape = graph[node.inputs[0]].type.shape;
  std::array<std::vector<float>, 4> parameters;  // scale, bias, mean, variance
  for (std::size_t i = 0; i < 4; ++i) {
    if (!graph.is_constant(node.inputs[i + 1])) return std::nullopt;
    parameters[i] = to_floats(*graph[node.inputs[i + 1]].constant);
    if (shape.rank() < 2 || std::cmp_not_equal(parameters[i].size(), shape[1])) return std::nullopt;
  }
  const auto& [scale, bias, mean, variance] = parameters;
  const double epsilon = node.attributes.number("epsilon");
  ChannelAffine affine{node.inputs[0], {}, {}};
  for (std::size_t c = 0; c < scale.size(); ++c) {
    const double factor = scale[c] / std::sqrt(static_cast<double>(variance[c]) + epsilon);
    affine.scale.push_back(static_cast<float>(factor));
    affine.shift.push_back(static_cast<float>(bias[c] - mean[c] * factor));
  }
  return affine;
}

// A call on one value and constants that acts on each channel alone.
std::optional<ChannelAffine> as_affine(const Graph& graph, const GraphNode& node) {
  const std::string_view op = node.def->name;
  if (op == "batch_normalization") return batch_norm_affine(graph, node);
  const Shape& shape = graph[node.outputs[0]].type.shape;
  if (shape.rank() < 2) return std::nullopt;
  const auto channels = static_cast<std::size_t>(shape[1]);
  if (op == "linear") {
    return ChannelAffine{node.inputs[0],
                         std::vector(channels, static_cast<float>(node.attributes.number("alpha"))),
                         std::vector(channels, static_cast<float>(node.attributes.number("beta")))};
  }
  if (op != "add" && op != "mul" && op != "sub") return std::nullopt;
  for (const std::size_t at : {std::size_t{1}, std::size_t{0}}) {
    std::optional<std::vector<float>> values = per_index(graph, node.inputs[at], shape, 1);
    const GraphValueId x = node.inputs[1 - at];
    if (!values || !(graph[x].type.shape == shape) || (op == "sub" && at == 0)) continue;
    if (op == "mul") return ChannelAffine{x, std::move(*values), std::vector(channels, 0.0f)};
    if (op == "sub") {
      for (float& value : *values)
        value = -value;
    }
    return ChannelAffine{x, std::vector(channels, 1.0f), std::move(*values)};
  }
  return std::nullopt;
}

// Which output channel each weight belongs to. conv: [M, C/group, k...];
// conv_transpose: [C, M/group, k...], group after group along dim 0.
std::vector<float> scaled_weights(const ConstantData& weights, bool is_transposed,
                                  std::int64_t group, const std::vector<float>& scale) {
  std::vector<float> values = to_floats(weights);
  const std::int64_t d0 = weights.shape[0];
  const std::int64_t d1 = weights.shape[1];
  const std::int64_t rest = d0 * d1 == 0 ? 0 : weights.shape.element_count() / (d0 * d1);
  std::size_t at = 0;
  for (std::int64_t i = 0; i < d0; ++i) {
    for (std::int64_t j = 0; j < d1; ++j) {
      const std::int64_t channel = is_transposed ? i / (d0 / group) * d1 + j : i;
      for (std::int64_t k = 0; k < rest; ++k) {
        values[at++] *= scale[static_cast<std::size_t>(channel)];
      }
    }
  }
  return values;
}

bool fold(Rewriter& rewriter, GraphNode& node, const ChannelAffine& affine) {
  const Graph& graph = rewriter.graph();
  const GraphNode* conv = rewriter.made_only_for(node, affine.x, "conv");
  const bool is_transposed = conv == nullptr;
  if (is_transposed) conv = rewriter.made_only_for(node, affine.x, "conv_transpose");
  if (conv == nullptr || !graph.is_constant(conv->inputs[1])) return false;
  const bool has_bias = conv->inputs.size() > 2 && conv->inputs[2] != kNoValue;
  if (has_bias && !graph.is_constant(conv->inputs[2])) return false;
  const ConstantData& weights = *graph[conv->inputs[1]].constant;
  std::vector<float> bias(affine.scale.size(), 0.0f);
  if (has_bias) bias = to_floats(*graph[conv->inputs[2]].constant);
  if (bias.size() != affine.scale.size()) return false;
  for (std::size_t c = 0; c < bias.size(); ++c) {
    bias[c] = bias[c] * affine.scale[c] + affine.shift[c];
  }
  GraphValueId weights_id = conv->inputs[1];
  if (std::ranges::any_of(affine.scale, [](float scale) { return scale != 1; })) {
    weights_id = rewriter.constant(
        conv->name + ".weights",
        from_floats(weights.dtype, weights.shape,
                    scaled_weights(weights, is_transposed, conv->attributes.integer("group"),
                                   affine.scale)));
  }
  const Shape channels{static_cast<std::int64_t>(bias.size())};
  const GraphValueId bias_id =
      rewriter.constant(conv->name + ".bias", from_floats(weights.dtype, channels, bias));
  const Attributes attributes = conv->attributes;
  const GraphValueId x = conv->inputs[0];
  rewriter.become(node, is_transposed ? "conv_transpose" : "conv", {x, weights_id, bias_id},
                  attributes);
  return true;
}

// A batch norm that stands alone: a product and a sum, which fuse with what is around them.
void become_arithmetic(Rewriter& rewriter, GraphNode& node, const ChannelAffine& affine) {
  const OperandType& type = rewriter.type(node.outputs[0]);
  Dims sizes;
  sizes.resize(static_cast<std::size_t>(type.shape.rank()), 1);
  sizes[1] = type.shape[1];
  const DType dtype = type.dtype;
  const Shape channels{sizes};
  const GraphValueId scale =
      rewriter.constant(node.name + ".scale", from_floats(dtype, channels, affine.scale));
  const GraphValueId shift =
      rewriter.constant(node.name + ".shift", from_floats(dtype, channels, affine.shift));
  const GraphValueId product = rewriter.insert("mul", {affine.x, scale});
  rewriter.become(node, "add", {product, shift});
}

// Without weights that are there, a shape may say any number of channels.
bool is_behind_weights(const Rewriter& rewriter, const GraphNode& node) {
  return std::ranges::any_of(node.inputs, [&](GraphValueId id) {
    const GraphNode* conv = rewriter.made_by(id, "conv");
    if (conv == nullptr) conv = rewriter.made_by(id, "conv_transpose");
    return conv != nullptr && rewriter.graph().is_constant(conv->inputs[1]);
  });
}

bool fold_affine(Rewriter& rewriter, GraphNode& node) {
  if (node.outputs.size() != 1 || !node.epilogue.empty()) return false;
  if (node.def->name != "batch_normalization" && !is_behind_weights(rewriter, node)) return false;
  if (!is_mapped(rewriter.type(node.outputs[0]).dtype)) return false;
  const std::optional<ChannelAffine> affine = as_affine(rewriter.graph(), node);
  if (!affine) return false;
  if (fold(rewriter, node, *affine)) return true;
  if (node.def->name != "batch_normalization") return false;
  become_arithmetic(rewriter, node, *affine);
  return true;
}

}  // namespace

bool fold_into_weights(Graph& graph) {
  return rewrite(graph, fold_affine);
}

}  // namespace tilemesh::passes
