#include <fmt/format.h>

#include "compiler/onnx/quantization.hpp"
#include "compiler/onnx/windows.hpp"

/// Products of quantized operands.
namespace tilemesh::onnx_importer {
namespace {

// x_scale * w_scale / y_scale in f32: what sums of products are multiplied by.
Value multiplier(Node& node, Value x_scale, Value w_scale, Value y_scale) {
  const Value product = node.emit("mul", {x_scale, w_scale});
  return node.emit("div", {product, node.reshape(y_scale, {})});
}

// Sums of products as integers again; `bias` may be none.
Value requantized(Node& node, Value sums, Value scale, Value zero_point, Value bias) {
  std::vector<Value> operands = {sums, scale, node.reshape(zero_point, {})};
  if (bias != kNoValue) operands.push_back(bias);
  return node.emit("requantize", std::move(operands),
                   {{"dtype", static_cast<std::int64_t>(node.dtype(zero_point))}});
}

Value one_element(Node& node, int input, std::string_view what) {
  const Value value = node.in(input);
  if (node.shape(value).element_count() != 1) {
    node.unsupported(fmt::format("its {} has the shape {}: one element is supported", what,
                                 node.shape(value).to_string()));
  }
  return node.reshape(value, {});
}

Value conv_integer(Node& node, const Quantized& x, const Quantized& w) {
  const int rank = node.rank(x.values);
  std::vector<Value> operands = {x.values, w.values, kNoValue, kNoValue};
  if (x.zero_point != kNoValue) operands[2] = node.reshape(x.zero_point, {});
  if (w.zero_point != kNoValue) operands[3] = along(node, w.zero_point, 0, rank);
  while (operands.back() == kNoValue)
    operands.pop_back();
  return node.emit("conv_integer", std::move(operands), conv_attributes(node, x.values, w.values));
}

void import_matmul_integer(Node& node) {
  node.set(0, matmul_integer(node, {node.in(0), kNoValue, node.in_or_none(2)},
                             {node.in(1), kNoValue, node.in_or_none(3)}));
}

void import_conv_integer(Node& node) {
  const Value zero_point = node.has(2) ? one_element(node, 2, "x_zero_point") : kNoValue;
  node.set(0, conv_integer(node, {node.in(0), kNoValue, zero_point},
                           {node.in(1), kNoValue, node.in_or_none(3)}));
}

// (x, scale, zero point, w, scale, zero point, y's scale, y's zero point, bias), with the channels
// of `x` as dim 1.
Value convolved(Node& node, Value x_values) {
  const Quantized x{x_values, one_element(node, 1, "x_scale"),
                    one_element(node, 2, "x_zero_point")};
  const Quantized w = quantized_input(node, 3);
  const int channel_dims = node.rank(x.values) - 1;  // of a list of one for each output channel
  const Value sums = conv_integer(node, x, w);
  const Value scale = along(node, w.scale, 0, channel_dims);
  const Value bias = node.has(8) ? along(node, node.in(8), 0, channel_dims) : kNoValue;
  return requantized(node, sums, multiplier(node, x.scale, scale, one_element(node, 6, "y_scale")),
                     one_element(node, 7, "y_zero_point"), bias);
}

void qlinear_conv(Node& node) {
  node.set(0, convolved(node, node.in(0)));
}

// That of com.microsoft, whose images may have their channels last.
void qlinear_conv_of_any_layout(Node& node) {
  if (node.integer("channels_last", 0) == 0) return qlinear_conv(node);
  node.set(0, to_channels_last(node, convolved(node, to_channels_first(node, node.in(0)))));
}

// (a, scale, zero point, b, scale, zero point, y's scale, y's zero point)
void qlinear_matmul(Node& node) {
  const Quantized a = quantized_input(node, 0);
  const Quantized b = quantized_input(node, 3);
  const Value sums = matmul_integer(node, a, b);
  const int rank = node.rank(a.values);
  const Value a_scale = along(node, a.scale, rank - 2, rank);  // one for each row
  const Value b_scale = along(node, b.scale, 0, 1);
  const auto f32 = [&](Value scale) {
    return node.cast(scale, DType::f32);
  };
  node.set(0, requantized(node, sums,
                          multiplier(node, f32(a_scale), f32(b_scale),
                                     f32(one_element(node, 6, "y_scale"))),
                          one_element(node, 7, "y_zero_point"), kNoValue));
}

constexpr OnnxOp kRows[] = {
    {.name = "ConvInteger", .since = 10, .handler = import_conv_integer},
    {.name = "MatMulInteger", .since = 10, .handler = import_matmul_integer},
    {.name = "QLinearConv", .since = 10, .handler = qlinear_conv},
    {.name = "QLinearMatMul", .since = 10, .handler = qlinear_matmul},
    microsoft("QLinearConv", qlinear_conv_of_any_layout),
};

}  // namespace

Value matmul_integer(Node& node, const Quantized& a, const Quantized& b) {
  const int rank = node.rank(a.values);
  std::vector<Value> operands = {a.values, b.values, kNoValue, kNoValue};
  if (a.zero_point != kNoValue) operands[2] = along(node, a.zero_point, rank - 2, rank);
  if (b.zero_point != kNoValue) operands[3] = along(node, b.zero_point, 0, 1);
  while (operands.back() == kNoValue)
    operands.pop_back();
  return node.emit("matmul_integer", std::move(operands),
                   {{"transpose_a", std::int64_t{0}}, {"transpose_b", std::int64_t{0}}});
}

std::span<const OnnxOp> integer_product_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
