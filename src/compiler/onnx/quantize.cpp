#include <fmt/format.h>

#include "compiler/onnx/quantization.hpp"
#include "compiler/onnx/tensor.hpp"

/// Linear quantization, of one scale for all, one for each index of a dim, or one for each block.
namespace tilemesh::onnx_importer {
namespace {

std::int64_t number(DType dtype) {
  return static_cast<std::int64_t>(dtype);
}

// How the parameters of QuantizeLinear and DequantizeLinear lie along x.
struct Axis {
  std::int64_t axis = 0;
  std::int64_t block_size = 0;  // 0: no blocks
  int rank = 0;

  Attributes attributes(DType dtype) const {
    return {
        {"dtype", number(dtype)}, {"axis", block_size == 0 ? 0 : axis}, {"block_size", block_size}};
  }
};

Axis axis_of(const Node& node) {
  Axis axis{.rank = node.rank(node.in(0))};
  if (node.shape(node.in(1)).element_count() == 1) return axis;
  axis.axis = node.axis(1, axis.rank);
  axis.block_size = node.integer("block_size", 0);
  if (axis.block_size < 0) {
    node.invalid(fmt::format("its block_size is {}", axis.block_size));
  }
  return axis;
}

// Scale and zero point.
std::vector<Value> with_parameters(Node& node, const Axis& axis) {
  std::vector<Value> operands = {node.in(0)};
  for (int i = 1; i < 3; ++i) {
    if (!node.has(i)) continue;
    const Value parameter = node.in(i);
    if (axis.block_size == 0 && node.rank(parameter) > 1) {
      node.invalid(fmt::format("its input {} is {} without a block_size", i,
                               node.shape(parameter).to_string()));
    }
    operands.push_back(along(node, parameter, axis.axis, axis.rank));
  }
  return operands;
}

// Integers of 4 and 2 bits, as integers of 8: exactly.
Value widened(Node& node, Value value) {
  const DType dtype = node.dtype(value);
  if (!is_small_integer(dtype) || !is_storage(dtype)) return value;
  const bool is_signed = dtype == DType::i4 || dtype == DType::i2;
  return node.cast(value, is_signed ? DType::i8 : DType::u8);
}

// Floats of 8 and 4 bits: differences and products in f32.
Value from_narrow_floats(Node& node, const std::vector<Value>& operands, DType dtype) {
  Value y = node.cast(operands[0], DType::f32);
  if (operands.size() > 2) y = node.emit("sub", {y, node.cast(operands[2], DType::f32)});
  return node.cast(node.emit("mul", {y, node.cast(operands[1], DType::f32)}), dtype);
}

// To integers of 4 and 2 bits by way of those of 8, which hold all of them.
Value to_small_integers(Node& node, const std::vector<Value>& operands, const Axis& axis,
                        DType dtype) {
  const bool is_signed = dtype == DType::i4 || dtype == DType::i2;
  const DType wide = is_signed ? DType::i8 : DType::u8;
  const double values = dtype == DType::i4 || dtype == DType::u4 ? 16 : 4;
  const double low = is_signed ? -values / 2 : 0;
  const Value y = node.emit("quantize", operands, axis.attributes(wide));
  const Value held = node.emit("clip", {y}, {{"min", low}, {"max", low + values - 1}});
  return node.cast(held, dtype);
}

// To floats of 8 and 4 bits: quotient and zero point in f32.
Value to_narrow_floats(Node& node, const std::vector<Value>& operands, DType dtype) {
  Value y =
      node.emit("div", {node.cast(operands[0], DType::f32), node.cast(operands[1], DType::f32)});
  if (operands.size() > 2) y = node.emit("add", {y, node.cast(operands[2], DType::f32)});
  return node.cast(y, dtype);
}

void quantize_linear(Node& node) {
  DType dtype = DType::u8;
  if (const std::int64_t asked = node.integer("output_dtype", 0); asked != 0) {
    dtype = dtype_of(asked, "output_dtype");
  }
  if (node.has(2)) dtype = node.dtype(node.in(2));
  const Axis axis = axis_of(node);
  std::vector<Value> operands = with_parameters(node, axis);
  if (is_storage(dtype) && !is_small_integer(dtype)) {
    if (axis.block_size != 0) node.unsupported("narrow floats in blocks aren't");
    return node.set(0, to_narrow_floats(node, operands, dtype));
  }
  if (operands.size() > 2) operands[2] = widened(node, operands[2]);
  node.set(0, is_small_integer(dtype)
                  ? to_small_integers(node, operands, axis, dtype)
                  : node.emit("quantize", std::move(operands), axis.attributes(dtype)));
}

void dequantize_linear(Node& node) {
  DType dtype = node.dtype(node.in(1));
  if (const std::int64_t asked = node.integer("output_dtype", 0); asked != 0) {
    dtype = dtype_of(asked, "output_dtype");
  }
  const Axis axis = axis_of(node);
  std::vector<Value> operands = with_parameters(node, axis);
  const DType stored = node.dtype(operands[0]);
  if (is_storage(stored) && !is_small_integer(stored)) {
    if (axis.block_size != 0) node.unsupported("narrow floats in blocks aren't");
    return node.set(0, from_narrow_floats(node, operands, dtype));
  }
  operands[0] = widened(node, operands[0]);
  if (operands.size() > 2) operands[2] = widened(node, operands[2]);
  node.set(0, node.emit("dequantize", std::move(operands), axis.attributes(dtype)));
}

void dynamic_quantize_linear(Node& node) {
  const Quantized y = dynamically_quantized(node, node.in(0));
  node.set(0, y.values);
  node.set(1, y.scale);
  node.set(2, y.zero_point);
}

constexpr OnnxOp kRows[] = {
    {.name = "DequantizeLinear", .since = 10, .handler = dequantize_linear},
    {.name = "DynamicQuantizeLinear", .since = 11, .handler = dynamic_quantize_linear},
    {.name = "QuantizeLinear", .since = 10, .handler = quantize_linear},
    microsoft("DequantizeLinear", dequantize_linear),
    microsoft("QuantizeLinear", quantize_linear),
};

}  // namespace

Value along(Node& node, Value parameter, std::int64_t axis, int rank) {
  const Shape shape = node.shape(parameter);
  if (shape.element_count() == 1) return node.reshape(parameter, {});
  if (shape.rank() != 1 || axis >= rank) return parameter;
  Dims sizes;
  sizes.resize(static_cast<std::size_t>(rank - axis), 1);
  sizes[0] = shape[0];
  return node.reshape(parameter, Shape(sizes));
}

Value dequantized(Node& node, const Quantized& x, std::int64_t axis) {
  const int rank = node.rank(x.values);
  std::vector<Value> operands = {x.values, along(node, x.scale, axis, rank)};
  if (x.zero_point != kNoValue) operands.push_back(along(node, x.zero_point, axis, rank));
  return node.emit("dequantize", std::move(operands),
                   {{"dtype", number(node.dtype(x.scale))},
                    {"axis", std::int64_t{0}},
                    {"block_size", std::int64_t{0}}});
}

Value quantized(Node& node, Value x, Value scale, Value zero_point, DType dtype) {
  std::vector<Value> operands = {x, along(node, scale, 0, node.rank(x))};
  if (zero_point != kNoValue) operands.push_back(along(node, zero_point, 0, node.rank(x)));
  return node.emit(
      "quantize", std::move(operands),
      {{"dtype", number(dtype)}, {"axis", std::int64_t{0}}, {"block_size", std::int64_t{0}}});
}

Quantized dynamically_quantized(Node& node, Value x) {
  const auto extreme = [&](std::string_view reduce) {
    return node.emit(reduce, {x}, {{"keepdims", std::int64_t{0}}});
  };
  const Value low = extreme("reduce_min");
  const Value high = extreme("reduce_max");
  const std::vector<Value> range =
      node.emit_many("range_to_scale", {low, high}, {{"dtype", number(DType::u8)}}, 2);
  return {quantized(node, x, range[0], range[1], DType::u8), range[0], range[1]};
}

Quantized quantized_input(Node& node, int first) {
  return {node.in(first), node.in(first + 1), node.in_or_none(first + 2)};
}

Value quantized_result(Node& node, Value y, int scale, DType fallback) {
  const Value zero_point = node.in_or_none(scale + 1);
  const DType dtype = zero_point == kNoValue ? fallback : node.dtype(zero_point);
  return quantized(node, y, node.in(scale), zero_point, dtype);
}

std::span<const OnnxOp> quantize_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
