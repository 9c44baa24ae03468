#include <functional>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "compiler/onnx/quantization.hpp"
#include "compiler/onnx/windows.hpp"

/// Operators of com.microsoft between quantized tensors. They compute in f32, in the order of
/// onnxruntime's kernels: where scales are round numbers, exact halves are common, and it is the
/// order that decides to which side they go.
namespace tilemesh::onnx_importer {
namespace {

using OnReals = std::function<Value(Value x)>;
using Integers = std::vector<std::int64_t>;

Value binary(Node& node, std::string_view op, Value a, Value b) {
  return node.emit(op, {a, b});
}

// A scale, or a zero point as a real; 0 where there is none.
Value real(Node& node, Value parameter) {
  if (parameter == kNoValue) return node.scalar(DType::f32, 0);
  if (node.shape(parameter).element_count() != 1) {
    node.unsupported(fmt::format("a scale or zero point {} isn't supported: one element is",
                                 node.shape(parameter).to_string()));
  }
  return node.cast(node.reshape(parameter, {}), DType::f32);
}

/// The scale and zero point that an output has.
struct Target {
  Value scale = kNoValue;
  Value zero_point = kNoValue;
  DType dtype = DType::u8;
};

Target target_of(const Node& node, int scale, DType fallback) {
  Target target{node.in(scale), node.in_or_none(scale + 1), fallback};
  if (target.zero_point != kNoValue) target.dtype = node.dtype(target.zero_point);
  return target;
}

// (x, scale, zero point, y's scale, y's zero point)
void on_one(Node& node, const OnReals& op) {
  const Quantized x = quantized_input(node, 0);
  node.set(0, quantized_result(node, op(dequantized(node, x)), 3, node.dtype(x.values)));
}

bool has_channels_last(const Node& node, Value x) {
  if (node.rank(x) < 3) {
    node.invalid(fmt::format("its input {} lacks spatial dims: [N,C,...] is wanted",
                             node.shape(x).to_string()));
  }
  return node.integer("channels_last", 0) != 0;
}

// True if the first shape has but one element where the second has the innermost of several.
bool is_repeated_inside(const Shape& first, const Shape& second) {
  for (int back = 1; back <= second.rank(); ++back) {
    const std::int64_t own = back <= first.rank() ? first[first.rank() - back] : 1;
    const std::int64_t other = second[second.rank() - back];
    if (own != 1 || other != 1) return own == 1;
  }
  return false;
}

// a * b + c of one element each, rounded to f32 once.
Value multiply_add(Node& node, Value a, Value b, Value c) {
  const auto wide = [&](Value x) {
    return node.cast(x, DType::f64);
  };
  const Value product = binary(node, "mul", wide(a), wide(b));
  return node.cast(binary(node, "add", product, wide(c)), DType::f32);
}

// (a, scale, zero point, b, scale, zero point, y's scale, y's zero point):
// a * s + (b * t + rest), with the scales s and t in steps of y's, and all zero points in the rest.
void add(Node& node) {
  Quantized a = quantized_input(node, 0);
  Quantized b = quantized_input(node, 3);
  const Target y = target_of(node, 6, node.dtype(a.values));
  if (is_repeated_inside(node.shape(a.values), node.shape(b.values))) std::swap(a, b);
  const auto in_steps = [&](Value scale) {
    return binary(node, "div", real(node, scale), real(node, y.scale));
  };
  const Value s = in_steps(a.scale);
  const Value t = in_steps(b.scale);
  const Value shift = multiply_add(node, s, real(node, a.zero_point),
                                   binary(node, "mul", t, real(node, b.zero_point)));
  const Value rest = binary(node, "sub", real(node, y.zero_point), shift);
  node.set(0, node.emit("quantized_add", {a.values, b.values, s, t, rest},
                        {{"dtype", static_cast<std::int64_t>(y.dtype)}}));
}

// The same operands: (a - zero point) * (b - zero point) * scale + y's zero point.
void mul(Node& node) {
  const Quantized a = quantized_input(node, 0);
  const Quantized b = quantized_input(node, 3);
  const Target y = target_of(node, 6, node.dtype(a.values));
  const Value scales = binary(node, "mul", real(node, a.scale), real(node, b.scale));
  const Value steps = binary(node, "div", scales, real(node, y.scale));
  std::vector<Value> operands = {a.values, b.values, steps, real(node, y.zero_point)};
  for (const Value zero_point : {a.zero_point, b.zero_point}) {
    operands.push_back(zero_point == kNoValue ? kNoValue : node.reshape(zero_point, {}));
  }
  while (operands.back() == kNoValue)
    operands.pop_back();
  node.set(0, node.emit("quantized_mul", std::move(operands),
                        {{"dtype", static_cast<std::int64_t>(y.dtype)}}));
}

void sigmoid(Node& node) {
  on_one(node, [&](Value x) { return node.emit("sigmoid", {x}); });
}

void leaky_relu(Node& node) {
  on_one(node, [&](Value x) {
    return node.emit("leaky_relu", {x}, {{"alpha", node.number("alpha", 0.01)}});
  });
}

// Before opset 13, which the node names, over all dims from the axis on.
Value shares(Node& node, Value x) {
  const bool flat = node.required_integer("opset") < 13;
  const Shape shape = node.shape(x);
  const std::int64_t axis = node.axis(flat ? 1 : -1, shape.rank());
  if (!flat) return node.emit("softmax", {x}, {{"axis", axis}});
  std::int64_t rows = 1;
  for (int d = 0; d < axis; ++d)
    rows *= shape[d];
  const std::int64_t columns = rows == 0 ? 0 : shape.element_count() / rows;
  const Value y =
      node.emit("softmax", {node.reshape(x, Shape({rows, columns}))}, {{"axis", std::int64_t{1}}});
  return node.reshape(y, shape);
}

// onnxruntime counts in whole numbers of steps to 1: with a scale of 0.3 there are 3.
void softmax(Node& node) {
  const Quantized x = quantized_input(node, 0);
  const Target y = target_of(node, 3, node.dtype(x.values));
  const Value one = node.scalar(DType::f32, 1);
  const Value steps = node.emit("floor", {binary(node, "div", one, real(node, y.scale))});
  const Value counted = binary(node, "mul", shares(node, dequantized(node, x)), steps);
  node.set(0, quantized(node, counted, one, y.zero_point, y.dtype));
}

void average_pool(Node& node) {
  const bool channels_last = has_channels_last(node, node.in(0));
  on_one(node, [&](Value x) {
    if (channels_last) x = to_channels_first(node, x);
    Attributes attributes = pool_attributes(node, x);
    attributes.set("count_include_pad", node.integer("count_include_pad", 0));
    const Value y = node.emit("average_pool", {x}, std::move(attributes));
    return channels_last ? to_channels_last(node, y) : y;
  });
}

// (x, scale, zero point, y's scale, y's zero point): the integers are summed, not the reals.
void global_average_pool(Node& node) {
  const Quantized x = quantized_input(node, 0);
  const Target y = target_of(node, 3, node.dtype(x.values));
  const Shape shape = node.shape(x.values);
  const int first = has_channels_last(node, x.values) ? 1 : 2;
  Integers axes(static_cast<std::size_t>(shape.rank() - 2));
  std::iota(axes.begin(), axes.end(), first);
  std::int64_t count = 1;
  for (const std::int64_t axis : axes)
    count *= shape[static_cast<int>(axis)];
  const Value wide = node.cast(x.values, DType::i32);
  const Value differences =
      x.zero_point == kNoValue
          ? wide
          : binary(node, "sub", wide, node.cast(node.reshape(x.zero_point, {}), DType::i32));
  const Value sums =
      node.emit("reduce_sum", {differences}, {{"axes", axes}, {"keepdims", std::int64_t{1}}});
  const Value all =
      binary(node, "mul", real(node, y.scale), node.scalar(DType::f32, static_cast<double>(count)));
  std::vector<Value> operands = {sums, binary(node, "div", real(node, x.scale), all)};
  if (y.zero_point != kNoValue) operands.push_back(node.reshape(y.zero_point, {}));
  node.set(0, node.emit("requantize", std::move(operands),
                        {{"dtype", static_cast<std::int64_t>(y.dtype)}}));
}

// (y's scale, y's zero point, then x, scale, zero point for each part)
void concat(Node& node) {
  const int parts = (node.input_count() - 2) / 3;
  if (parts < 1 || node.input_count() != 2 + 3 * parts) {
    node.invalid(
        fmt::format("it has {} inputs: a scale, a zero point, and three for each part "
                    "are wanted",
                    node.input_count()));
  }
  const DType dtype = node.dtype(node.in(2));
  const std::int64_t axis = node.normal_axis(node.required_integer("axis"), node.rank(node.in(2)));
  std::vector<Value> results;
  for (int i = 0; i < parts; ++i) {
    const Value reals = dequantized(node, quantized_input(node, 2 + 3 * i));
    results.push_back(quantized_result(node, reals, 0, dtype));
  }
  node.set(0, node.emit("concat", std::move(results), {{"axis", axis}}));
}

// (condition, x, scale, zero point, y, scale, zero point, z's scale, z's zero point)
void where(Node& node) {
  const auto in_steps_of_z = [&](int i) {
    const Quantized x = quantized_input(node, i);
    return quantized_result(node, dequantized(node, x), 7, node.dtype(x.values));
  };
  node.set(0, node.emit("where", {node.in(0), in_steps_of_z(1), in_steps_of_z(4)}));
}

constexpr OnnxOp kRows[] = {
    microsoft("QLinearAdd", add),
    microsoft("QLinearAveragePool", average_pool),
    microsoft("QLinearConcat", concat),
    microsoft("QLinearGlobalAveragePool", global_average_pool),
    microsoft("QLinearLeakyRelu", leaky_relu),
    microsoft("QLinearMul", mul),
    microsoft("QLinearSigmoid", sigmoid),
    microsoft("QLinearSoftmax", softmax),
    microsoft("QLinearWhere", where),
};

}  // namespace

std::span<const OnnxOp> quantized_op_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
