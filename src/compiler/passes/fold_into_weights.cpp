#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "compiler/passes/constants.hpp"
#include "compiler/passes/pass.hpp"
#include "compiler/passes/rewriter.hpp"
#include "compiler/passes/rounding.hpp"

namespace tilemesh::passes {
namespace {

// y = scale * x + shift for each channel (dim 1).
struct ChannelAffine {
  GraphValueId x = kNoValue;
  std::vector<double> scale, shift;
  bool may_stand_alone = true;  // as a product and a sum, which lose nothing to each other
};

std::vector<double> all(std::size_t channels, double value) {
  return std::vector(channels, value);
}

std::optional<ChannelAffine> batch_norm_affine(const Graph& graph, const GraphNode& node) {
  const Shape& shape = graph[node.inputs[0]].type.shape;
  std::array<std::vector<float>, 4> parameters;  // scale, bias, mean, variance
  for (std::size_t i = 0; i < 4; ++i) {
    if (!graph.is_constant(node.inputs[i + 1])) return std::nullopt;
    parameters[i] = to_floats(*graph[node.inputs[i + 1]].constant);
    if (shape.rank() < 2 || std::cmp_not_equal(parameters[i].size(), shape[1])) return std::nullopt;
  }
  // A product and a sum round numbers as large as the mean, the batch norm itself those that are
  // left.
  constexpr double kLargestCancellation = 64;
  const auto& [scale, bias, mean, variance] = parameters;
  const double epsilon = node.attributes.number("epsilon");
  ChannelAffine affine{node.inputs[0], {}, {}};
  double usual = 0;
  double largest_centre = 0;
  for (std::size_t c = 0; c < scale.size(); ++c) {
    const double factor = double{scale[c]} / std::sqrt(double{variance[c]} + epsilon);
    const double centre = double{mean[c]} * factor;
    affine.scale.push_back(factor);
    affine.shift.push_back(double{bias[c]} - centre);
    usual = std::max(usual, std::abs(double{scale[c]}) + std::abs(double{bias[c]}));
    largest_centre = std::max(largest_centre, std::abs(centre));
  }
  affine.may_stand_alone = largest_centre <= kLargestCancellation * usual;
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
    return ChannelAffine{node.inputs[0], all(channels, node.attributes.number("alpha")),
                         all(channels, node.attributes.number("beta"))};
  }
  if (op != "add" && op != "mul" && op != "sub") return std::nullopt;
  for (const std::size_t at : {std::size_t{1}, std::size_t{0}}) {
    const std::optional<std::vector<float>> found = per_index(graph, node.inputs[at], shape, 1);
    const GraphValueId x = node.inputs[1 - at];
    if (!found || !(graph[x].type.shape == shape) || (op == "sub" && at == 0)) continue;
    std::vector<double> values(found->begin(), found->end());
    if (op == "mul") return ChannelAffine{x, std::move(values), all(channels, 0)};
    if (op == "sub") {
      for (double& value : values)
        value = -value;
    }
    return ChannelAffine{x, all(channels, 1), std::move(values)};
  }
  return std::nullopt;
}

// Each weight times its output channel's factor. conv: [M, C/group, k...]; conv_transpose:
// [C, M/group, k...], group after group along dim 0.
std::optional<std::vector<float>> scaled_weights(const ConstantData& weights, bool is_transposed,
                                                 std::int64_t group,
                                                 const std::vector<double>& scale) {
  const std::int64_t d0 = weights.shape[0];
  const std::int64_t d1 = weights.shape[1];
  const std::int64_t rest = d0 * d1 == 0 ? 1 : weights.shape.element_count() / (d0 * d1);
  return scaled(to_floats(weights), [&](std::size_t at) {
    const auto row = static_cast<std::int64_t>(at) / rest;
    const std::int64_t i = row / d1;
    const std::int64_t channel = is_transposed ? i / (d0 / group) * d1 + row % d1 : i;
    return scale[static_cast<std::size_t>(channel)];
  });
}

// The convolution before the affine, as far as it may change.
struct Convolution {
  const GraphNode* conv = nullptr;
  bool is_transposed = false;
  std::vector<float> bias;
};

std::optional<Convolution> convolution_before(const Rewriter& rewriter, const GraphNode& node,
                                              const ChannelAffine& affine) {
  const Graph& graph = rewriter.graph();
  Convolution before;
  before.conv = rewriter.made_only_for(node, affine.x, "conv");
  before.is_transposed = before.conv == nullptr;
  if (before.is_transposed) before.conv = rewriter.made_only_for(node, affine.x, "conv_transpose");
  if (before.conv == nullptr || !graph.is_constant(before.conv->inputs[1])) return std::nullopt;
  const bool has_bias = before.conv->inputs.size() > 2 && before.conv->inputs[2] != kNoValue;
  if (has_bias && !graph.is_constant(before.conv->inputs[2])) return std::nullopt;
  // Other types would round the weights once more.
  if (graph[before.conv->inputs[1]].type.dtype != DType::f32) return std::nullopt;
  before.bias.resize(affine.scale.size(), 0.0F);
  if (has_bias) before.bias = to_floats(*graph[before.conv->inputs[2]].constant);
  return before.bias.size() == affine.scale.size() ? std::optional(std::move(before))
                                                   : std::nullopt;
}

bool fold(Rewriter& rewriter, GraphNode& node, const ChannelAffine& affine) {
  const std::optional<Convolution> before = convolution_before(rewriter, node, affine);
  if (!before || !std::ranges::all_of(affine.scale, may_scale_weights)) return false;
  const GraphNode& conv = *before->conv;
  const ConstantData& weights = *rewriter.graph()[conv.inputs[1]].constant;
  std::vector<float> bias = before->bias;
  for (std::size_t c = 0; c < bias.size(); ++c) {
    const double scaled_bias = double{bias[c]} * affine.scale[c];
    if (!may_join_bias(affine.shift[c])) return false;
    if (affine.shift[c] != 0 && !may_join_bias(scaled_bias)) return false;
    bias[c] = static_cast<float>(scaled_bias + affine.shift[c]);
  }
  GraphValueId weights_id = conv.inputs[1];
  if (std::ranges::any_of(affine.scale, [](double scale) { return scale != 1; })) {
    const auto values = scaled_weights(weights, before->is_transposed,
                                       conv.attributes.integer("group"), affine.scale);
    if (!values) return false;
    weights_id =
        rewriter.constant(conv.name + ".weights", from_floats(DType::f32, weights.shape, *values));
  }
  const Shape channels{static_cast<std::int64_t>(bias.size())};
  const GraphValueId bias_id =
      rewriter.constant(conv.name + ".bias", from_floats(DType::f32, channels, bias));
  const Attributes attributes = conv.attributes;
  const GraphValueId x = conv.inputs[0];
  rewriter.become(node, before->is_transposed ? "conv_transpose" : "conv", {x, weights_id, bias_id},
                  attributes);
  return true;
}

std::vector<float> rounded(const std::vector<double>& values) {
  return {values.begin(), values.end()};
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
      rewriter.constant(node.name + ".scale", from_floats(dtype, channels, rounded(affine.scale)));
  const GraphValueId shift =
      rewriter.constant(node.name + ".shift", from_floats(dtype, channels, rounded(affine.shift)));
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
  const bool is_norm = node.def->name == "batch_normalization";
  // In other types than f32 the batch norm itself rounds once, its parts twice.
  if (!is_norm || !affine->may_stand_alone || rewriter.type(affine->x).dtype != DType::f32) {
    return false;
  }
  become_arithmetic(rewriter, node, *affine);
  return true;
}

}  // namespace

bool fold_into_weights(Graph& graph) {
  return rewrite(graph, fold_affine);
}

}  // namespace tilemesh::passes
