#include "compiler/onnx/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

namespace tilemesh::onnx_importer {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Value scaled(Node& node, Value x, double factor) {
  if (factor == 1) return x;
  return node.emit("linear", {x}, {{"alpha", factor}, {"beta", 0.0}});
}

// Small floats would overflow in a product that is scaled afterwards, and lose digits in one that
// is scaled before: each side takes the root.
Value scores_of(Node& node, const AttentionCall& call, Value q, Value k) {
  const bool wide = node.dtype(q) == DType::f32 || node.dtype(q) == DType::f64;
  if (wide || call.scale < 0) {
    q = scaled(node, q, call.scale);
  } else {
    q = scaled(node, q, std::sqrt(call.scale));
    k = scaled(node, k, std::sqrt(call.scale));
  }
  return node.emit("matmul", {q, k}, {{"transpose_b", std::int64_t{1}}});
}

Value capped(Node& node, Value scores, double cap) {
  if (cap == 0) return scores;
  const Value part = node.emit("div", {scores, node.scalar(node.dtype(scores), cap)});
  return scaled(node, node.emit("tanh", {part}), cap);
}

// The bias that is added: minus infinity where a key isn't seen.
Value whole_bias(Node& node, const AttentionCall& call) {
  if (call.allowed == kNoValue) return call.bias;
  const DType dtype = node.dtype(call.q);
  const Value seen = call.bias != kNoValue ? call.bias : node.scalar(dtype, 0);
  return node.emit("where", {call.allowed, seen, node.scalar(dtype, -kInfinity)});
}

// Softmax of nothing but minus infinity has no value: such a query gives zeros.
Value zero_where_blind(Node& node, Value bias, Value result) {
  if (bias == kNoValue) return result;
  if (node.rank(bias) == 0) bias = node.reshape(bias, {1});
  const Value most = node.emit(
      "reduce_max", {bias},
      {{"axes", std::vector<std::int64_t>{node.rank(bias) - 1}}, {"keepdims", std::int64_t{1}}});
  const Value blind = node.emit("equal", {most, node.scalar(node.dtype(bias), -kInfinity)});
  if (node.is_constant(blind)) {
    const std::vector<std::int64_t> any = read_as<std::int64_t>(node.data(blind));
    if (std::all_of(any.begin(), any.end(), [](auto truth) { return truth == 0; })) return result;
  }
  return node.emit("where", {blind, node.scalar(node.dtype(result), 0), result});
}

void check(Node& node, const AttentionCall& call) {
  const Shape q = node.shape(call.q);
  const Shape k = node.shape(call.k);
  const Shape v = node.shape(call.v);
  const bool fits = q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && q[0] == k[0] &&
                    k[0] == v[0] && k[1] == v[1] && k[2] == v[2] && q[3] == k[3] && k[1] > 0 &&
                    q[1] % k[1] == 0;
  if (fits) return;
  node.invalid(fmt::format(
      "queries {}, keys {} and values {} don't go together: [B,N,S,D], [B,M,T,D] and [B,M,T,E] "
      "with N a multiple of M are wanted",
      q.to_string(), k.to_string(), v.to_string()));
}

}  // namespace

AttentionSteps attend(Node& node, const AttentionCall& call) {
  check(node, call);
  const Shape q = node.shape(call.q);
  const Shape k = node.shape(call.k);
  const std::int64_t values = node.shape(call.v)[3];
  // Heads that share keys lie next to each other: to the products they are more queries.
  const Shape grouped{q[0], k[1], q[1] / k[1] * q[2], q[3]};
  const Shape by_head{q[0], q[1], q[2], k[2]};
  AttentionSteps steps;
  steps.scores =
      node.reshape(scores_of(node, call, node.reshape(call.q, grouped), call.k), by_head);
  steps.capped = capped(node, steps.scores, call.softcap);
  const Value bias = whole_bias(node, call);
  steps.biased = steps.capped;
  if (bias != kNoValue) {
    if (!(broadcast(node.shape(bias), by_head) == by_head)) {
      node.invalid(fmt::format("the mask or bias {} doesn't broadcast to {}",
                               node.shape(bias).to_string(), by_head.to_string()));
    }
    steps.biased = node.emit("add", {steps.capped, bias});
  }
  const DType dtype = node.dtype(call.q);
  const Value wide = node.cast(steps.biased, call.softmax_dtype.value_or(dtype));
  const Value weights = node.cast(node.emit("softmax", {wide}, {{"axis", std::int64_t{3}}}), dtype);
  const Shape rows{q[0], k[1], q[1] / k[1] * q[2], k[2]};
  const Value y = node.emit("matmul", {node.reshape(weights, rows), call.v});
  // Zeros are put in at the end, where there is least to look through.
  steps.y = zero_where_blind(node, bias, node.reshape(y, {q[0], q[1], q[2], values}));
  steps.weights = zero_where_blind(node, bias, weights);
  return steps;
}

Value places(Node& node, std::int64_t count) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return node.integers_constant(numbers);
}

Value both(Node& node, Value a, Value b) {
  if (a == kNoValue || b == kNoValue) return a == kNoValue ? b : a;
  return node.emit("and", {a, b});
}

Value seen(Node& node, const Sight& sight, std::int64_t queries, std::int64_t keys) {
  if (!sight.causal && sight.left < 0 && sight.right < 0) return kNoValue;
  const Value keys_at = places(node, keys);
  const auto integer = [&](std::int64_t value) {
    return node.constant(make_constant<std::int64_t>({}, {value}));
  };
  Value at = node.reshape(places(node, queries), {queries, 1});
  if (sight.offsets != kNoValue) {
    const std::int64_t batch = node.shape(sight.offsets).element_count();
    at = node.emit("add",
                   {at, node.reshape(node.cast(sight.offsets, DType::i64), {batch, 1, 1, 1})});
  } else if (sight.offset != 0) {
    at = node.emit("add", {at, integer(sight.offset)});
  }
  const auto ahead = [&](std::int64_t steps) {
    return node.emit("less_or_equal",
                     {keys_at, steps == 0 ? at : node.emit("add", {at, integer(steps)})});
  };
  Value result = kNoValue;
  if (sight.causal) result = ahead(0);
  if (sight.right >= 0 && !sight.causal) result = ahead(sight.right);
  if (sight.left >= 0) {
    const Value first = node.emit("sub", {at, integer(sight.left)});
    result = both(node, result, node.emit("greater_or_equal", {keys_at, first}));
  }
  return result;
}

Value within(Node& node, Value lengths, std::int64_t keys) {
  const std::int64_t batch = node.shape(lengths).element_count();
  const Value ends = node.reshape(node.cast(lengths, DType::i64), {batch, 1, 1, 1});
  return node.emit("less", {places(node, keys), ends});
}

Value written_at(Node& node, Value cache, Value update, const CachePlace& place) {
  const Shape shape = node.shape(update);
  Dims sizes;  // a tuple of indices for each row of the update, up to and with the axis
  for (int d = 0; d <= place.axis; ++d)
    sizes.push_back(shape[d]);
  sizes.push_back(1);
  const Shape column(sizes);
  const auto along = [&](Value value, int dim) {
    Dims ones;
    ones.resize(sizes.size(), 1);
    ones[static_cast<std::size_t>(dim)] = node.shape(value).element_count();
    return node.reshape(value, Shape(ones));
  };
  std::vector<Value> indices;
  for (int d = 0; d < place.axis; ++d)
    indices.push_back(node.expand(along(places(node, shape[d]), d), column));
  Value at = along(places(node, shape[place.axis]), place.axis);
  if (place.starts != kNoValue) {
    at = node.emit("add", {at, along(node.cast(place.starts, DType::i64), 0)});
  }
  if (place.circular) {
    const std::int64_t size = node.shape(cache)[place.axis];
    at = node.emit("mod", {at, node.constant(make_constant<std::int64_t>({}, {size}))},
                   {{"fmod", std::int64_t{0}}});
  }
  indices.push_back(node.expand(at, column));
  const Value tuples = node.emit("concat", indices, {{"axis", std::int64_t{column.rank() - 1}}});
  return node.emit("scatter_nd", {cache, tuples, update}, {{"reduction", std::string("none")}});
}

Value split_heads(Node& node, Value value, std::int64_t heads) {
  const Shape shape = node.shape(value);
  if (shape.rank() != 3 || heads < 1 || shape[2] % heads != 0) {
    node.invalid(
        fmt::format("{} has no {} heads: [B,S,heads * size] is wanted", shape.to_string(), heads));
  }
  const Value parts = node.reshape(value, {shape[0], shape[1], heads, shape[2] / heads});
  return node.transpose(parts, {0, 2, 1, 3});
}

Value join_heads(Node& node, Value value) {
  const Shape shape = node.shape(value);
  return node.reshape(node.transpose(value, {0, 2, 1, 3}),
                      {shape[0], shape[2], shape[1] * shape[3]});
}

}  // namespace tilemesh::onnx_importer
