#include <fmt/format.h>

#include "compiler/onnx/node.hpp"

/// Losses, which ONNX defines by simpler operators.
namespace tilemesh::onnx_importer {
namespace {

Value sum_all(Node& node, Value x) {
  return node.emit("reduce_sum", {x}, {{"keepdims", std::int64_t{0}}});
}

// -weight[target] * log_probability[target], reduced; targets of ignore_index weigh nothing.
Value negative_log_likelihood(Node& node, Value log_probability, Value target, Value weight) {
  const Shape shape = node.shape(log_probability);
  const Shape labels = node.shape(target);
  if (shape.rank() < 2 || labels.rank() != shape.rank() - 1) {
    node.invalid(fmt::format("scores {} and labels {} don't fit: [N,C,...] and [N,...] are wanted",
                             shape.to_string(), labels.to_string()));
  }
  const DType dtype = node.dtype(log_probability);
  Value ignored = kNoValue;
  if (node.has_attribute("ignore_index")) {
    const auto index = static_cast<double>(node.integer("ignore_index", 0));
    ignored = node.emit("equal", {target, node.scalar(node.dtype(target), index)});
    target = node.emit("where", {ignored, node.scalar(node.dtype(target), 0), target});
  }
  Dims column = labels.sizes();
  column.insert(1, 1);
  const Value picked =
      node.emit("gather_elements", {log_probability, node.reshape(target, Shape(column))},
                {{"axis", std::int64_t{1}}});
  Value loss = node.emit("neg", {node.reshape(picked, labels)});
  Value weights = kNoValue;
  if (weight != kNoValue)
    weights = node.emit("gather", {weight, target}, {{"axis", std::int64_t{0}}});
  if (ignored != kNoValue) {
    const Value zero = node.scalar(dtype, 0);
    const Value given = weights == kNoValue ? node.scalar(dtype, 1) : weights;
    weights = node.expand(node.emit("where", {ignored, zero, given}), labels);
    loss = node.emit("where", {ignored, zero, loss});  // else 0 times infinity or NaN
  }
  if (weights != kNoValue) loss = node.emit("mul", {loss, weights});
  const std::string reduction = node.text("reduction", "mean");
  if (reduction == "none") return loss;
  if (reduction == "sum") return sum_all(node, loss);
  if (reduction != "mean") node.invalid(fmt::format("its reduction is \"{}\"", reduction));
  if (weights == kNoValue) return node.emit("reduce_mean", {loss}, {{"keepdims", std::int64_t{0}}});
  return node.emit("div", {sum_all(node, loss), sum_all(node, weights)});
}

void nll_loss(Node& node) {
  node.set(0, negative_log_likelihood(node, node.in(0), node.in(1), node.in_or_none(2)));
}

void softmax_cross_entropy_loss(Node& node) {
  const Value scores = node.in(0);
  if (node.rank(scores) < 2) node.invalid("its scores want the shape [N,C,...]");
  const Value log_probability = node.emit("log_softmax", {scores}, {{"axis", std::int64_t{1}}});
  node.set(0, negative_log_likelihood(node, log_probability, node.in(1), node.in_or_none(2)));
  node.set(1, log_probability);
}

constexpr OnnxOp kRows[] = {
    {.name = "NegativeLogLikelihoodLoss", .since = 12, .handler = nll_loss},
    {.name = "SoftmaxCrossEntropyLoss", .since = 12, .handler = softmax_cross_entropy_loss},
};

}  // namespace

std::span<const OnnxOp> loss_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
