#include <fmt/format.h>

#include "compiler/onnx/microsoft_attention.hpp"
#include "compiler/onnx/quantization.hpp"

/// Operators of com.microsoft that multiply quantized matrices.
namespace tilemesh::onnx_importer {
namespace {

// Sums of products as reals, plus a bias, which may be none.
Value to_reals(Node& node, Value sums, Value scale, Value bias) {
  const Value y = dequantized(node, {sums, scale}, node.rank(sums) - 1);
  return bias == kNoValue ? y : node.emit("add", {y, bias});
}

Value one_scale(Node& node, Value scale, std::string_view of) {
  if (node.shape(scale).element_count() != 1) {
    node.unsupported(fmt::format("its {} has the shape {}: one element is supported", of,
                                 node.shape(scale).to_string()));
  }
  return node.reshape(scale, {});
}

// (a in reals, b, scale, zero point, bias)
void dynamic_quantize_matmul(Node& node) {
  const Quantized a = dynamically_quantized(node, node.in(0));
  node.set(0, product_of_reals(node, a, {node.in(1), node.in(2), node.in_or_none(3)},
                               node.in_or_none(4)));
}

// (a, b, a's scale, b's scale, a's zero point, b's zero point, bias)
void matmul_integer_to_float(Node& node) {
  const Quantized a{node.in(0), one_scale(node, node.in(2), "a_scale"), node.in_or_none(4)};
  node.set(0, product_of_reals(node, a, {node.in(1), node.in(3), node.in_or_none(5)},
                               node.in_or_none(6)));
}

Quantized maybe_transposed(Node& node, Quantized x, std::string_view attribute) {
  if (node.rank(x.values) != 2) {
    node.invalid(fmt::format("it wants two matrices, got {}", node.shape(x.values).to_string()));
  }
  if (node.integer(attribute, 0) != 0) x.values = node.transpose(x.values, {1, 0});
  return x;
}

// (a, scale, zero point, b, scale, zero point, c in i32, y's scale, y's zero point): reals without
// a scale of y.
void qgemm(Node& node) {
  Quantized a = maybe_transposed(node, quantized_input(node, 0), "transA");
  a.scale = one_scale(node, a.scale, "a_scale");
  const Quantized b = maybe_transposed(node, quantized_input(node, 3), "transB");
  const Value sums = matmul_integer(node, a, b);
  const Value bias = node.in_or_none(6);
  const Value alpha = node.scalar(DType::f32, node.number("alpha", 1));
  Value scale = node.emit("mul", {alpha, a.scale});
  scale = node.emit("mul", {scale, along(node, b.scale, 0, 1)});
  if (!node.has(7)) {
    const Value total = bias == kNoValue ? sums : node.emit("add", {sums, bias});
    return node.set(0, to_reals(node, total, scale, kNoValue));
  }
  scale = node.emit("div", {scale, one_scale(node, node.in(7), "y_scale")});
  const DType dtype = node.dtype(node.has(8) ? node.in(8) : a.values);
  std::vector<Value> operands = {sums, scale, kNoValue, bias};
  if (node.has(8)) operands[2] = node.reshape(node.in(8), {});
  while (operands.back() == kNoValue)
    operands.pop_back();
  node.set(0, node.emit("requantize", std::move(operands),
                        {{"dtype", static_cast<std::int64_t>(dtype)}}));
}

// (x, weights, bias, x's scale, weights' scale, mask, x's zero point, weights' zero point, past)
void qattention(Node& node) {
  const Quantized x{node.in(0), one_scale(node, node.in(3), "input_scale"), node.in_or_none(6)};
  const Quantized weights{node.in(1), node.in(4), node.in_or_none(7)};
  const Value projected = product_of_reals(node, x, weights, node.in(2));
  attend_projected(node, projected, {.mask = 5, .past = 8});
}

constexpr OnnxOp kRows[] = {
    microsoft("DynamicQuantizeMatMul", dynamic_quantize_matmul),
    microsoft("MatMulIntegerToFloat", matmul_integer_to_float),
    microsoft("QAttention", qattention),
    microsoft("QGemm", qgemm),
};

}  // namespace

Value product_of_reals(Node& node, const Quantized& a, const Quantized& b, Value bias) {
  const Value scale = node.emit("mul", {node.reshape(a.scale, {}), along(node, b.scale, 0, 1)});
  return to_reals(node, matmul_integer(node, a, b), scale, bias);
}

std::span<const OnnxOp> quantized_product_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
