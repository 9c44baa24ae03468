#include <cmath>

#include <fmt/format.h>

#include "compiler/onnx/attention.hpp"

/// Operators that carry a state from token to token in place of a cache of keys.
namespace tilemesh::onnx_importer {
namespace {

using Integers = std::vector<std::int64_t>;

Value sliced(Node& node, Value x, std::int64_t axis, std::int64_t start, std::int64_t end) {
  if (start == 0 && end == node.shape(x)[static_cast<int>(axis)]) return x;
  return node.emit("slice", {x},
                   {{"starts", Integers{start}},
                    {"ends", Integers{end}},
                    {"axes", Integers{axis}},
                    {"steps", Integers{1}}});
}

// A convolution of each channel with what came before it; the last places are the next state.
void causal_conv(Node& node) {
  const Value x = node.in(0);
  const Shape shape = node.shape(x);
  const Shape weights = node.shape(node.in(1));
  if (shape.rank() != 3 || weights.rank() != 3 || weights[0] != shape[1] || weights[1] != 1 ||
      weights[2] < 1) {
    node.invalid(
        fmt::format("its input {} and weights {} don't go together: [B,C,L] and [C,1,k] "
                    "are wanted",
                    shape.to_string(), weights.to_string()));
  }
  const std::int64_t before = weights[2] - 1;
  const Shape state{shape[0], shape[1], before};
  const Value past = node.has(3) ? node.in(3) : node.expand(node.scalar(node.dtype(x), 0), state);
  if (!(node.shape(past) == state)) {
    node.invalid(fmt::format("its past_state is {}, {} is wanted", node.shape(past).to_string(),
                             state.to_string()));
  }
  const Value whole = before == 0 ? x : node.emit("concat", {past, x}, {{"axis", std::int64_t{2}}});
  std::vector<Value> operands = {whole, node.in(1)};
  if (node.has(2)) operands.push_back(node.in(2));
  const Value y = node.emit("conv", operands,
                            {{"strides", Integers{1}},
                             {"pads", Integers{0, 0}},
                             {"dilations", Integers{1}},
                             {"group", shape[1]}});
  const std::string activation = node.text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") {
    node.invalid(
        fmt::format("its activation is \"{}\": none, silu or swish is wanted", activation));
  }
  node.set(0, activation == "none" ? y : node.emit("swish", {y}, {{"alpha", 1.0}}));
  if (node.wants(1))
    node.set(1, before == 0 ? past : sliced(node, whole, 2, shape[2], shape[2] + before));
}

/// LinearAttention's operands by heads, in the dtype that the state is carried in.
struct Recurrence {
  Value q = kNoValue;      ///< [B, M, T, N / M, D]
  Value k = kNoValue;      ///< [B, M, T, D, 1]
  Value v = kNoValue;      ///< [B, M, T, 1, E]
  Value decay = kNoValue;  ///< [B, M, T, D or 1, 1], already a factor; kNoValue: none
  Value beta = kNoValue;   ///< [B, M or 1, T, 1, 1]; kNoValue: the values are added as they are
  double scale = 1;
};

constexpr std::int64_t kMostSteps = 512;

// [B, T, heads * size] as [B, heads, T, ...] with the rest of a head as said.
Value by_heads(Node& node, Value x, std::int64_t heads, std::int64_t rows, std::int64_t columns,
               DType dtype) {
  const Shape shape = node.shape(x);
  if (shape.rank() != 3 || shape[2] != heads * rows * columns) {
    node.invalid(fmt::format("{} has no {} heads of {}", shape.to_string(), heads, rows * columns));
  }
  const Value parts = node.reshape(node.cast(x, dtype), {shape[0], shape[1], heads, rows, columns});
  return node.transpose(parts, {0, 2, 1, 3, 4});
}

Recurrence read_recurrence(Node& node, DType dtype) {
  const std::int64_t queries = node.required_integer("q_num_heads");
  const std::int64_t heads = node.required_integer("kv_num_heads");
  const std::string rule = node.text("update_rule", "gated_delta");
  const bool decays = rule == "gated" || rule == "gated_delta";
  const bool corrects = rule == "delta" || rule == "gated_delta";
  if (!decays && !corrects && rule != "linear") {
    node.invalid(fmt::format("its update_rule is \"{}\"", rule));
  }
  if (heads < 1 || queries < heads || queries % heads != 0) {
    node.invalid(fmt::format("{} heads of queries don't share {} of keys", queries, heads));
  }
  const std::int64_t size = node.shape(node.in(0))[2] / queries;
  const std::int64_t values = node.shape(node.in(2))[2] / heads;
  Recurrence r;
  r.q = by_heads(node, node.in(0), heads, queries / heads, size, dtype);
  r.k = by_heads(node, node.in(1), heads, size, 1, dtype);
  r.v = by_heads(node, node.in(2), heads, 1, values, dtype);
  if (decays) {
    const std::int64_t rows = node.shape(node.in(4))[2] / heads;
    r.decay = node.emit("exp", {by_heads(node, node.in(4), heads, rows, 1, dtype)});
  }
  if (corrects) r.beta = by_heads(node, node.in(5), node.shape(node.in(5))[2], 1, 1, dtype);
  const double scale = node.number("scale", 0);
  r.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(size));
  return r;
}

// One token: the state after it.
Value stepped(Node& node, const Recurrence& r, Value state, const auto& at) {
  if (r.decay != kNoValue) state = node.emit("mul", {state, at(r.decay)});
  Value added = at(r.v);
  if (r.beta != kNoValue) {
    const Value known = node.emit("matmul", {at(r.k), state}, {{"transpose_a", std::int64_t{1}}});
    added = node.emit("mul", {node.emit("sub", {added, known}), at(r.beta)});
  }
  return node.emit("add", {state, node.emit("mul", {at(r.k), added})});
}

void linear_attention(Node& node) {
  const DType own = node.dtype(node.in(0));
  const DType dtype = own == DType::f64 ? own : DType::f32;
  const Recurrence r = read_recurrence(node, dtype);
  const Shape q = node.shape(r.q);
  const std::int64_t steps = q[2];
  if (steps > kMostSteps) {
    node.unsupported(
        fmt::format("{} tokens in one call aren't supported, {} are", steps, kMostSteps));
  }
  const std::int64_t values = node.shape(r.v)[4];
  const Shape shape{q[0], q[1], q[4], values};
  Value state =
      node.has(3) ? node.cast(node.in(3), dtype) : node.expand(node.scalar(dtype, 0), shape);
  std::vector<Value> rows;
  for (std::int64_t t = 0; t < steps; ++t) {
    const auto at = [&](Value x) {
      const Shape from = node.shape(x);
      return node.reshape(sliced(node, x, 2, t, t + 1), {from[0], from[1], from[3], from[4]});
    };
    state = stepped(node, r, state, at);
    const Value y = node.emit("matmul", {at(r.q), state});  // [B, M, N / M, E]
    rows.push_back(node.reshape(y, {q[0], 1, q[1] * q[3] * values}));
  }
  Value y = rows.size() == 1 ? rows[0] : node.emit("concat", rows, {{"axis", std::int64_t{1}}});
  y = node.emit("linear", {y}, {{"alpha", r.scale}, {"beta", 0.0}});
  node.set(0, node.cast(y, own));
  node.set(1, node.cast(state, node.has(3) ? node.dtype(node.in(3)) : own));
}

constexpr OnnxOp kRows[] = {
    {.name = "CausalConvWithState", .since = 27, .handler = causal_conv},
    {.name = "LinearAttention", .since = 27, .handler = linear_attention},
};

}  // namespace

std::span<const OnnxOp> recurrence_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
