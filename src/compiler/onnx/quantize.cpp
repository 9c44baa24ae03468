#include <limits>

#include <fmt/format.h>

#include "compiler/onnx/node.hpp"
#include "compiler/onnx/tensor.hpp"

/// Linear quantization, said in float.
namespace tilemesh::onnx_importer {
namespace {

// One scale for all, or one for each element of the axis.
Value along_axis(Node& node, Value value, const Shape& shape) {
  if (node.shape(value).element_count() == 1) return node.reshape(value, {});
  if (node.integer("block_size", 0) != 0 || node.rank(value) != 1) {
    node.unsupported("quantization in blocks isn't supported");
  }
  const std::int64_t axis = node.axis(1, shape.rank());
  Dims sizes;
  sizes.resize(static_cast<std::size_t>(shape.rank()), 1);
  sizes[static_cast<std::size_t>(axis)] = node.shape(value)[0];
  return node.reshape(value, Shape(sizes));
}

std::pair<double, double> range_of(const Node& node, DType dtype) {
  switch (dtype) {
    case DType::u8: return {0, 255};
    case DType::i8: return {-128, 127};
    case DType::u16: return {0, 65535};
    case DType::i16: return {-32768, 32767};
    default: node.unsupported(fmt::format("quantization to {} isn't supported", to_string(dtype)));
  }
}

// saturate(round(x / scale) + zero point); both in f32, of shapes that broadcast.
Value quantized(Node& node, Value x, Value scale, Value zero_point, DType dtype) {
  const auto [low, high] = range_of(node, dtype);
  Value y = node.emit("round", {node.emit("div", {x, scale})});
  if (zero_point != kNoValue) y = node.emit("add", {y, zero_point});
  return node.cast(node.emit("clip", {y}, {{"min", low}, {"max", high}}), dtype);
}

void quantize_linear(Node& node) {
  const Value x = node.in(0);
  const Shape shape = node.shape(x);
  DType dtype = DType::u8;
  if (const std::int64_t asked = node.integer("output_dtype", 0); asked != 0) {
    dtype = dtype_of(asked, "output_dtype");
  }
  Value zero_point = kNoValue;
  if (node.has(2)) {
    dtype = node.dtype(node.in(2));
    zero_point = node.cast(along_axis(node, node.in(2), shape), DType::f32);
  }
  const Value scale = node.cast(along_axis(node, node.in(1), shape), DType::f32);
  node.set(0, quantized(node, node.cast(x, DType::f32), scale, zero_point, dtype));
}

void dequantize_linear(Node& node) {
  const Value x = node.in(0);
  const Shape shape = node.shape(x);
  // Differences of two quantized integers fit in i32, and are exact there.
  const bool is_float = is_storage(node.dtype(x)) && !is_small_integer(node.dtype(x));
  const DType exact = is_float ? DType::f32 : DType::i32;
  Value y = node.cast(x, exact);
  if (node.has(2)) {
    y = node.emit("sub", {y, node.cast(along_axis(node, node.in(2), shape), exact)});
  }
  const Value scale = along_axis(node, node.in(1), shape);
  const DType dtype = node.dtype(scale);
  const Value product = node.emit("mul", {node.cast(y, DType::f32), node.cast(scale, DType::f32)});
  node.set(0, node.cast(product, dtype));
}

void dynamic_quantize_linear(Node& node) {
  const Value x = node.in(0);
  const Value zero = node.scalar(DType::f32, 0);
  const auto extreme = [&](std::string_view reduce, std::string_view with_zero) {
    return node.emit(with_zero, {node.emit(reduce, {x}, {{"keepdims", std::int64_t{0}}}), zero});
  };
  const Value low = extreme("reduce_min", "min");
  const Value high = extreme("reduce_max", "max");
  const Value scale =
      node.emit("div", {node.emit("sub", {high, low}), node.scalar(DType::f32, 255)});
  const Value offset = node.emit("sub", {zero, node.emit("div", {low, scale})});
  const Value clipped = node.emit("clip", {offset}, {{"min", 0.0}, {"max", 255.0}});
  const Value zero_point = node.emit("round", {clipped});
  node.set(0, quantized(node, x, scale, zero_point, DType::u8));
  node.set(1, scale);
  node.set(2, node.cast(zero_point, DType::u8));
}

constexpr OnnxOp kRows[] = {
    {.name = "DequantizeLinear", .since = 10, .handler = dequantize_linear},
    {.name = "DynamicQuantizeLinear", .since = 11, .handler = dynamic_quantize_linear},
    {.name = "QuantizeLinear", .since = 10, .handler = quantize_linear},
};

}  // namespace

std::span<const OnnxOp> quantize_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
