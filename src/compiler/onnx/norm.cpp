#include "compiler/onnx/norm.hpp"

#include <numeric>

#include <fmt/format.h>

#include "compiler/onnx/tensor.hpp"

/// Normalisations and softmax.
namespace tilemesh::onnx_importer {
namespace {

using Integers = std::vector<std::int64_t>;

Value mean_over(Node& node, Value x, const Integers& axes, bool keep) {
  return node.emit("reduce_mean", {x}, {{"axes", axes}, {"keepdims", std::int64_t{keep}}});
}

// All dims but the channels.
Integers all_but_channels(int rank) {
  Integers axes;
  for (int i = 0; i < rank; ++i) {
    if (i != 1) axes.push_back(i);
  }
  return axes;
}

// [C] seen as [1, C, 1, ...].
Value along_channels(Node& node, Value value, int rank) {
  Dims sizes;
  sizes.resize(static_cast<std::size_t>(rank), 1);
  sizes[1] = node.shape(value).element_count();
  return node.reshape(value, Shape(sizes));
}

// In training mode the batch gives mean and variance, and the running ones follow it. The batch,
// its scale and the running ones may be of three dtypes, each narrower than what their sums need.
void train_batch(Node& node) {
  const Value x = node.in(0);
  const int rank = node.rank(x);
  if (rank < 2) node.invalid("it has no channels");
  bool twice = false;
  for (int i = 0; i < 5; ++i)
    twice = twice || node.dtype(node.in(i)) == DType::f64;
  const DType wide = twice ? DType::f64 : DType::f32;
  const Value batch = node.cast(x, wide);
  const Value mean = mean_over(node, batch, all_but_channels(rank), false);
  const Value centred = node.emit("sub", {batch, along_channels(node, mean, rank)});
  const Value variance =
      mean_over(node, node.emit("mul", {centred, centred}), all_but_channels(rank), false);
  const Value result =
      node.emit("batch_normalization",
                {batch, node.cast(node.in(1), wide), node.cast(node.in(2), wide), mean, variance},
                {{"epsilon", node.number("epsilon", 1e-5)}});
  node.set(0, node.cast(result, node.dtype(x)));
  const double momentum = node.number("momentum", 0.9);
  const auto blend = [&](Value running, Value fresh) {
    const auto scaled = [&](Value value, double factor) {
      return node.emit("linear", {value}, {{"alpha", factor}, {"beta", 0.0}});
    };
    const Value sum =
        node.emit("add", {scaled(node.cast(running, wide), momentum), scaled(fresh, 1 - momentum)});
    return node.cast(sum, node.dtype(running));
  };
  if (node.wants(1)) node.set(1, blend(node.in(3), mean));
  if (node.wants(2)) node.set(2, blend(node.in(4), variance));
}

void batch_normalization(Node& node) {
  if (node.version() < 9 && node.integer("spatial", 1) != 1) {
    node.unsupported("statistics of every element (spatial = 0) aren't supported");
  }
  if (node.version() >= 14 && node.integer("training_mode", 0) != 0) return train_batch(node);
  for (int i = 0; i < 5; ++i)
    static_cast<void>(node.in(i));
  node.set(0, node.emit("batch_normalization", node.inputs(),
                        {{"epsilon", node.number("epsilon", 1e-5)}}));
}

void instance_normalization(Node& node) {
  node.set(0, node.emit("instance_normalization", {node.in(0), node.in(1), node.in(2)},
                        {{"epsilon", node.number("epsilon", 1e-5)}}));
}

// In models below opset 17 too: exporters wrote the operator before it was ONNX's own.
void layer_normalization(Node& node) {
  const Value x = node.in(0);
  const int outputs = node.wants(2) ? 3 : node.wants(1) ? 2 : 1;
  node.set_all(layer_normal(node, x, node.in(1), node.in_or_none(2), node.axis(-1, node.rank(x)),
                            node.number("epsilon", 1e-5), outputs));
}

// onnxruntime's operator, which exporters write into ONNX's domain: RMSNormalization, rounded once.
void simplified_layer_normalization(Node& node) {
  const Value x = node.in(0);
  const Value scale = node.in(1);
  const DType dtype = dtype_of(node.integer("stash_type", 1), "stash_type");
  const RmsNorm norm = rms_normal(node, node.cast(x, dtype), node.axis(-1, node.rank(x)),
                                  node.number("epsilon", 1e-5), dtype);
  const Value result = node.emit("mul", {norm.normal, node.cast(scale, dtype)});
  node.set(0, node.cast(result, node.dtype(scale)));
  node.set(1, norm.inverse);
}

// A group is an instance of one channel, scaled and moved afterwards.
void group_normalization(Node& node) {
  const Value x = node.in(0);
  const Shape shape = node.shape(x);
  const std::int64_t groups = node.required_integer("num_groups");
  if (shape.rank() < 2 || groups < 1 || shape[1] % groups != 0) {
    node.invalid(
        fmt::format("{} groups don't divide the channels of {}", groups, shape.to_string()));
  }
  const std::int64_t inner = shape[0] == 0 ? 0 : shape.element_count() / (shape[0] * groups);
  const Value grouped = node.reshape(x, {shape[0], groups, inner});
  const DType dtype = node.dtype(x);
  const Value normal = node.emit("instance_normalization",
                                 {grouped, node.expand(node.scalar(dtype, 1), {groups}),
                                  node.expand(node.scalar(dtype, 0), {groups})},
                                 {{"epsilon", node.number("epsilon", 1e-5)}});
  // Scale and bias are per group in opset 18, per channel from 21 on.
  const auto per_channel = [&](Value value) {
    if (node.version() < 21) {
      const Value column = node.reshape(value, {groups, 1});
      value = node.reshape(node.expand(column, {groups, shape[1] / groups}), {shape[1]});
    }
    return along_channels(node, value, shape.rank());
  };
  const Value scaled = node.emit("mul", {node.reshape(normal, shape), per_channel(node.in(1))});
  node.set(0, node.emit("add", {scaled, per_channel(node.in(2))}));
}

void lrn(Node& node) {
  node.set(0, node.emit("lrn", {node.in(0)},
                        {{"alpha", node.number("alpha", 1e-4)},
                         {"beta", node.number("beta", 0.75)},
                         {"bias", node.number("bias", 1)},
                         {"size", node.required_integer("size")}}));
}

// Before opset 13 the tensor is seen as a matrix, cut at the axis.
void softmax(Node& node) {
  const Value x = node.in(0);
  const Shape shape = node.shape(x);
  const bool matrix = node.version() < 13;
  const std::int64_t axis = node.axis(matrix ? 1 : -1, shape.rank());
  if (!matrix || axis == shape.rank() - 1) {
    return node.set(0, node.emit(node.row().op, {x}, {{"axis", axis}}));
  }
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  for (int i = 0; i < shape.rank(); ++i)
    (i < axis ? outer : inner) *= shape[i];
  const Value rows =
      node.emit(node.row().op, {node.reshape(x, {outer, inner})}, {{"axis", std::int64_t{1}}});
  node.set(0, node.reshape(rows, shape));
}

void lp_normalization(Node& node) {
  const Value x = node.in(0);
  node.set(0, node.emit("lp_normalization", {x},
                        {{"axis", node.axis(-1, node.rank(x))}, {"p", node.integer("p", 2)}}));
}

void mean_variance_normalization(Node& node) {
  const Value x = node.in(0);
  const Integers axes = node.normal_axes(node.integers("axes", {0, 2, 3}), node.rank(x));
  const Value centred = node.emit("sub", {x, mean_over(node, x, axes, true)});
  const Value variance = mean_over(node, node.emit("mul", {centred, centred}), axes, true);
  const Value deviation =
      node.emit("add", {node.emit("sqrt", {variance}), node.scalar(node.dtype(x), 1e-9)});
  node.set(0, node.emit("div", {centred, deviation}));
}

}  // namespace

RmsNorm rms_normal(Node& node, Value x, std::int64_t axis, double epsilon, DType dtype) {
  const Value wide = node.cast(x, dtype);
  Integers axes;
  for (std::int64_t d = axis; d < node.rank(x); ++d)
    axes.push_back(d);
  const Value mean = mean_over(node, node.emit("mul", {wide, wide}), axes, true);
  const Value rms = node.emit("sqrt", {node.emit("add", {mean, node.scalar(dtype, epsilon)})});
  return {.normal = node.cast(node.emit("div", {wide, rms}), node.dtype(x)),
          .inverse = node.emit("reciprocal", {rms})};
}

std::vector<Value> layer_normal(Node& node, Value x, Value scale, Value bias, std::int64_t axis,
                                double epsilon, int output_count) {
  const Shape shape = node.shape(x);
  const Shape inner(std::span<const std::int64_t>(shape.begin() + axis, shape.end()));
  std::vector<Value> operands = {x, node.expand(scale, inner)};
  if (bias != kNoValue) operands.push_back(node.expand(bias, inner));
  return node.emit_many("layer_normalization", operands, {{"axis", axis}, {"epsilon", epsilon}},
                        output_count);
}

namespace {

constexpr OnnxOp kRows[] = {
    {.name = "BatchNormalization", .since = 7, .handler = batch_normalization},
    {.name = "GroupNormalization", .since = 18, .handler = group_normalization},
    {.name = "Hardmax", .handler = softmax, .op = "hardmax"},
    {.name = "InstanceNormalization", .since = 6, .handler = instance_normalization},
    {.name = "LRN", .handler = lrn},
    {.name = "LayerNormalization", .handler = layer_normalization},
    {.name = "LogSoftmax", .handler = softmax, .op = "log_softmax"},
    {.name = "LpNormalization", .handler = lp_normalization},
    {.name = "MeanVarianceNormalization", .since = 9, .handler = mean_variance_normalization},
    {.name = "SimplifiedLayerNormalization", .handler = simplified_layer_normalization},
    {.name = "Softmax", .handler = softmax, .op = "softmax"},
};

}  // namespace

std::span<const OnnxOp> norm_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
