#include <algorithm>
#include <numeric>
#include <optional>

#include "compiler/passes/constants.hpp"
#include "compiler/passes/pass.hpp"
#include "compiler/passes/rewriter.hpp"

namespace tilemesh::passes {
namespace {

// The first of the trailing dims that a mean with kept dims is taken over; none for other means.
std::optional<int> mean_axis(const Rewriter& rewriter, const GraphNode& mean) {
  const int rank = rewriter.type(mean.inputs[0]).shape.rank();
  if (mean.attributes.integer("keepdims") != 1) return std::nullopt;
  std::vector<std::int64_t> axes = mean.attributes.integers("axes");
  std::ranges::sort(axes);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != rank - static_cast<std::int64_t>(axes.size() - i)) return std::nullopt;
  }
  return axes.empty() ? std::nullopt : std::optional(static_cast<int>(axes[0]));
}

// x - mean(x): the sub node, if it is one.
const GraphNode* centred(const Rewriter& rewriter, GraphValueId id) {
  const GraphNode* sub = rewriter.made_by(id, "sub");
  if (sub == nullptr) return nullptr;
  const GraphNode* mean = rewriter.made_by(sub->inputs[1], "reduce_mean");
  return mean != nullptr && mean->inputs[0] == sub->inputs[0] && mean_axis(rewriter, *mean)
             ? sub
             : nullptr;
}

struct Norm {
  GraphValueId x = kNoValue;
  int axis = 0;
  double epsilon = 0;
};

// sqrt(mean(d * d) + epsilon) for d = x - mean(x).
std::optional<Norm> deviation(const Rewriter& rewriter, GraphValueId id, GraphValueId d) {
  const GraphNode* root = rewriter.made_by(id, "sqrt");
  if (root == nullptr) return std::nullopt;
  const GraphNode* shift = rewriter.made_by(root->inputs[0], "linear");
  if (shift == nullptr || shift->attributes.number("alpha") != 1) return std::nullopt;
  const GraphNode* mean = rewriter.made_by(shift->inputs[0], "reduce_mean");
  if (mean == nullptr) return std::nullopt;
  const GraphNode* square = rewriter.made_by(mean->inputs[0], "mul");
  if (square == nullptr || square->inputs[0] != square->inputs[1]) return std::nullopt;
  // Some exporters write the difference twice; equal nodes are one by now.
  if (square->inputs[0] != d) return std::nullopt;
  const GraphNode* sub = centred(rewriter, d);
  const std::optional<int> axis = mean_axis(rewriter, *mean);
  if (sub == nullptr || !axis) return std::nullopt;
  const GraphNode* inner = rewriter.made_by(sub->inputs[1], "reduce_mean");
  if (mean_axis(rewriter, *inner) != axis) return std::nullopt;
  return Norm{sub->inputs[0], *axis, shift->attributes.number("beta")};
}

Shape normalised_shape(const Shape& shape, int axis) {
  Dims sizes;
  for (int d = axis; d < shape.rank(); ++d)
    sizes.push_back(shape[d]);
  return Shape{sizes};
}

bool find_norm(Rewriter& rewriter, GraphNode& node) {
  std::optional<Norm> norm;
  if (node.def->name == "div") {
    norm = deviation(rewriter, node.inputs[1], node.inputs[0]);
  } else {
    for (const std::size_t at : {std::size_t{0}, std::size_t{1}}) {
      const GraphNode* inverse = rewriter.made_by(node.inputs[at], "reciprocal");
      if (inverse != nullptr && !norm) {
        norm = deviation(rewriter, inverse->inputs[0], node.inputs[1 - at]);
      }
    }
  }
  if (!norm) return false;
  const OperandType& type = rewriter.type(norm->x);
  const Shape shape = normalised_shape(type.shape, norm->axis);
  const std::vector<float> ones(static_cast<std::size_t>(shape.element_count()), 1.0f);
  const GraphValueId scale =
      rewriter.constant(node.name + ".scale", from_floats(type.dtype, shape, ones));
  rewriter.become(node, "layer_normalization", {norm->x, scale},
                  {{"axis", std::int64_t{norm->axis}}, {"epsilon", norm->epsilon}});
  return true;
}

// A constant in the shape of the normalised dims, if it broadcasts to the value along no others.
GraphValueId as_parameter(Rewriter& rewriter, GraphValueId id, const OperandType& type, int axis) {
  if (!rewriter.graph().is_constant(id)) return kNoValue;
  const ConstantData& data = *rewriter.graph()[id].constant;
  const Shape shape = normalised_shape(type.shape, axis);
  const int missing = type.shape.rank() - data.shape.rank();
  if (data.dtype != type.dtype || missing < 0) return kNoValue;
  for (int d = 0; d < type.shape.rank(); ++d) {
    const std::int64_t size = d < missing ? 1 : data.shape[d - missing];
    if (size != (d < axis ? 1 : type.shape[d])) return kNoValue;
  }
  return rewriter.constant(rewriter.graph()[id].name, {data.dtype, shape, data.bytes});
}

// layer_norm(x) * scale + bias, the scale first: what the op does itself.
bool absorb(Rewriter& rewriter, GraphNode& node) {
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}}) {
    const GraphNode* norm = rewriter.made_only_for(node, node.inputs[at], "layer_normalization");
    if (norm == nullptr || norm->outputs.size() != 1) continue;
    const bool has_bias = norm->inputs.size() > 2 && norm->inputs[2] != kNoValue;
    const bool is_scale = node.def->name == "mul";
    if (has_bias || (is_scale && splat(rewriter.graph(), norm->inputs[1]) != 1.0)) continue;
    const OperandType& type = rewriter.type(node.outputs[0]);
    if (!(type.shape == rewriter.type(node.inputs[at]).shape)) continue;
    const auto axis = static_cast<int>(norm->attributes.integer("axis"));
    const GraphValueId parameter = as_parameter(rewriter, node.inputs[1 - at], type, axis);
    if (parameter == kNoValue) continue;
    const std::vector<GraphValueId> inputs =
        is_scale ? std::vector{norm->inputs[0], parameter}
                 : std::vector{norm->inputs[0], norm->inputs[1], parameter};
    rewriter.become(node, "layer_normalization", inputs, norm->attributes);
    return true;
  }
  return false;
}

bool find(Rewriter& rewriter, GraphNode& node) {
  if (node.outputs.size() != 1 || !is_mapped(rewriter.type(node.outputs[0]).dtype)) return false;
  const std::string_view op = node.def->name;
  if ((op == "div" || op == "mul") && find_norm(rewriter, node)) return true;
  return (op == "mul" || op == "add") && absorb(rewriter, node);
}

}  // namespace

bool find_layer_norm(Graph& graph) {
  return rewrite(graph, find);
}

}  // namespace tilemesh::passes
