#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "compiler/onnx/node.hpp"

/// Operators on elements.
namespace tilemesh::onnx_importer {
namespace {

// Sum, Max, Min, Mean: any number of operands.
void variadic(Node& node) {
  Value result = node.in(0);
  for (int i = 1; i < node.input_count(); ++i)
    result = node.emit(node.row().op, {result, node.in(i)});
  if (node.row().name == "Mean") {
    result = node.emit("div", {result, node.scalar(node.dtype(result), node.input_count())});
  }
  node.set(0, result);
}

// The largest finite number of a float dtype.
double highest(DType dtype) {
  switch (dtype) {
    case DType::f16: return 65504;
    case DType::bf16: return 0x1.fep127;
    case DType::f64: return std::numeric_limits<double>::max();
    default: return double{std::numeric_limits<float>::max()};
  }
}

// A bound that a run gives. One that is NaN bounds nothing, which max and min would spread.
Value bounded(Node& node, Value x, Value bound, std::string_view beyond) {
  if (!is_float(node.dtype(x))) {
    return node.emit(beyond == "less" ? "max" : "min", {x, bound});
  }
  return node.emit("where", {node.emit(beyond, {x, bound}), bound, x});
}

// Bounds that aren't given are the ends of the finite numbers: an infinity is held there.
void clip(Node& node) {
  const Value x = node.in(0);
  const DType dtype = node.dtype(x);
  if (node.version() < 11) {
    const double most = highest(DType::f32);
    node.set(0, node.emit("clip", {x},
                          {{"min", node.number("min", -most)}, {"max", node.number("max", most)}}));
    return;
  }
  const Value low = node.in_or_none(1);
  const Value high = node.in_or_none(2);
  const bool known =
      (low == kNoValue || node.is_constant(low)) && (high == kNoValue || node.is_constant(high));
  // Attributes are doubles, which don't hold all 64-bit integers.
  if (known && is_float(dtype)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const auto or_none = [](double bound, double none) {
      return std::isnan(bound) ? none : bound;
    };
    const double most = highest(dtype);
    node.set(
        0,
        node.emit(
            "clip", {x},
            {{"min", low == kNoValue ? -most : or_none(node.known_number(1, "min"), -kInfinity)},
             {"max", high == kNoValue ? most : or_none(node.known_number(2, "max"), kInfinity)}}));
    return;
  }
  const auto bound_of = [&](Value given, double none) {
    return given == kNoValue && is_float(dtype) ? node.scalar(dtype, none)
           : given == kNoValue                  ? kNoValue
                                                : node.reshape(given, {});
  };
  Value result = x;
  for (const auto& [bound, beyond] : {std::pair{bound_of(low, -highest(dtype)), "less"},
                                      std::pair{bound_of(high, highest(dtype)), "greater"}}) {
    if (bound != kNoValue) result = bounded(node, result, bound, beyond);
  }
  node.set(0, result);
}

void gelu(Node& node) {
  node.set(0, node.emit("gelu", {node.in(0)}, {{"approximate", node.text("approximate", "none")}}));
}

void mish(Node& node) {
  const Value x = node.in(0);
  node.set(0, node.emit("mul", {x, node.emit("tanh", {node.emit("softplus", {x})})}));
}

void is_inf(Node& node) {
  node.set(0, node.emit("is_inf", {node.in(0)},
                        {{"detect_negative", node.integer("detect_negative", 1)},
                         {"detect_positive", node.integer("detect_positive", 1)}}));
}

void mod(Node& node) {
  node.set(0, node.emit("mod", {node.in(0), node.in(1)}, {{"fmod", node.integer("fmod", 0)}}));
}

void bit_shift(Node& node) {
  const std::string direction = node.text("direction", "");
  node.set(0, node.emit("bit_shift", {node.in(0), node.in(1)}, {{"direction", direction}}));
}

// The slope is broadcast to x, never the other way.
void prelu(Node& node) {
  const Value x = node.in(0);
  const Value slope = node.in(1);
  if (!(broadcast(node.shape(x), node.shape(slope)) == node.shape(x))) {
    node.invalid(fmt::format("the slope {} doesn't broadcast to {}", node.shape(slope).to_string(),
                             node.shape(x).to_string()));
  }
  node.set(0, node.emit("prelu", {x, slope}));
}

// For inference it is the identity, and its mask is all true.
void dropout(Node& node) {
  const Value x = node.in(0);
  if (node.has(2) && node.known_number(2, "training_mode") != 0) {
    const bool drops = !node.has(1) || node.known_number(1, "ratio") != 0;
    if (drops) node.unsupported("it drops elements at random in training mode");
  }
  node.set(0, x);
  if (node.wants(1)) {
    const DType mask = node.version() < 10 ? node.dtype(x) : DType::boolean;
    node.set(1, node.expand(node.scalar(mask, 1), node.shape(x)));
  }
}

void identity(Node& node) {
  node.set(0, node.in(0));
}

constexpr OnnxOp unary(std::string_view name, std::string_view op, NumberRow first = {},
                       NumberRow second = {}) {
  return {.name = name, .handler = direct, .op = op, .numbers = {first, second}};
}
constexpr OnnxOp binary(std::string_view name, std::string_view op, int since = 7) {
  return {.name = name, .since = since, .handler = direct, .op = op};
}

constexpr NumberRow alpha(double fallback) {
  return {"alpha", "alpha", fallback};
}

constexpr OnnxOp kRows[] = {
    unary("Abs", "abs"),
    unary("Acos", "acos"),
    unary("Acosh", "acosh"),
    unary("Asin", "asin"),
    unary("Asinh", "asinh"),
    unary("Atan", "atan"),
    unary("Atanh", "atanh"),
    unary("Ceil", "ceil"),
    unary("Celu", "celu", alpha(1)),
    unary("Cos", "cos"),
    unary("Cosh", "cosh"),
    unary("Elu", "elu", alpha(1)),
    unary("Erf", "erf"),
    unary("Exp", "exp"),
    unary("Floor", "floor"),
    unary("HardSigmoid", "hard_sigmoid", alpha(0.2), {"beta", "beta", 0.5}),
    unary("HardSwish", "hard_swish"),
    unary("IsNaN", "is_nan"),
    unary("LeakyRelu", "leaky_relu", alpha(0.01)),
    unary("Log", "log"),
    unary("Neg", "neg"),
    unary("Not", "not"),
    unary("Reciprocal", "reciprocal"),
    unary("Relu", "relu"),
    unary("Round", "round"),
    unary("Selu", "selu", alpha(1.67326319217681884765625),
          {"gamma", "gamma", 1.05070102214813232421875}),
    unary("Shrink", "shrink", {"lambd", "lambd", 0.5}, {"bias", "bias", 0}),
    unary("Sigmoid", "sigmoid"),
    unary("Sign", "sign"),
    unary("Sin", "sin"),
    unary("Sinh", "sinh"),
    unary("Softplus", "softplus"),
    unary("Softsign", "softsign"),
    unary("Sqrt", "sqrt"),
    unary("Tan", "tan"),
    unary("Tanh", "tanh"),
    unary("ThresholdedRelu", "thresholded_relu", alpha(1)),

    binary("Add", "add"),
    binary("And", "and"),
    binary("Div", "div"),
    binary("Equal", "equal"),
    binary("Greater", "greater"),
    binary("GreaterOrEqual", "greater_or_equal", 12),
    binary("Less", "less"),
    binary("LessOrEqual", "less_or_equal", 12),
    binary("Mul", "mul"),
    binary("Or", "or"),
    binary("Pow", "pow"),
    binary("Sub", "sub"),
    binary("Where", "where", 9),
    binary("Xor", "xor"),

    {.name = "BitShift", .since = 11, .handler = bit_shift},
    {.name = "Clip", .since = 6, .handler = clip},
    {.name = "Dropout", .since = 7, .handler = dropout, .values_needed = 0b110},
    {.name = "Gelu", .since = 20, .handler = gelu},
    {.name = "Identity", .handler = identity, .takes_lists = true},
    {.name = "IsInf", .since = 10, .handler = is_inf},
    {.name = "Max", .since = 6, .handler = variadic, .op = "max"},
    {.name = "Mean", .since = 6, .handler = variadic, .op = "add"},
    {.name = "Min", .since = 6, .handler = variadic, .op = "min"},
    {.name = "Mish", .since = 18, .handler = mish},
    {.name = "Mod", .since = 10, .handler = mod},
    {.name = "PRelu", .since = 7, .handler = prelu},
    {.name = "Sum", .since = 6, .handler = variadic, .op = "add"},
};

}  // namespace

std::span<const OnnxOp> elementwise_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
