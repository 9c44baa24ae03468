#include "compiler/onnx/microsoft_attention.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "compiler/onnx/attention.hpp"
#include "compiler/onnx/rotary.hpp"

/// onnxruntime's attention for whole sequences (the encoders and decoders that its optimizer
/// fuses) and its rotation. Of caches the growing kind: a shared buffer is refused.
namespace tilemesh::onnx_importer {
namespace {

using Integers = std::vector<std::int64_t>;

std::vector<Value> split_last(Node& node, Value x, const Integers& sizes) {
  return node.emit_many("split", {x}, {{"axis", std::int64_t{node.rank(x) - 1}}, {"sizes", sizes}},
                        static_cast<int>(sizes.size()));
}

Value concat(Node& node, std::vector<Value> parts, std::int64_t axis) {
  return node.emit("concat", std::move(parts), {{"axis", axis}});
}

Value one_of(Node& node, Value x, std::int64_t axis, std::int64_t at) {
  const Value index = node.constant(make_constant<std::int64_t>({}, {at}));
  return node.emit("gather", {x, index}, {{"axis", axis}});
}

double scale_of(Node& node, Value q) {
  const double given = node.number("scale", 0);
  const Shape shape = node.shape(q);
  return given != 0 ? given : 1 / std::sqrt(static_cast<double>(shape[shape.rank() - 1]));
}

// Where the mask is zero, mask_filter_value is added: finite, so that a query that sees nothing
// gives a mean of the values.
Value filtered(Node& node, Value seen, DType dtype) {
  return node.emit("where", {seen, node.scalar(dtype, 0),
                             node.scalar(dtype, node.number("mask_filter_value", -10000))});
}

Value added(Node& node, Value a, Value b) {
  if (a == kNoValue || b == kNoValue) return a == kNoValue ? b : a;
  return node.emit("add", {a, b});
}

/// The sizes that a mask is read by.
struct Sizes {
  std::int64_t batch = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
};

Value places_below(Node& node, Value ends, const Sizes& sizes) {
  return within(node, node.reshape(ends, {sizes.batch}), sizes.keys);
}

// True where keys may be seen, in any of the forms that a mask has; kNoValue without one.
Value unmasked(Node& node, int input, const Sizes& sizes) {
  if (!node.has(input)) return kNoValue;
  const Value mask = node.in(input);
  const Shape shape = node.shape(mask);
  const Value zero = node.scalar(node.dtype(mask), 0);
  const auto as_truth = [&](const Shape& to) {
    return node.emit("greater", {node.reshape(mask, to), zero});
  };
  if (shape == Shape{sizes.batch}) return places_below(node, mask, sizes);
  if (shape == Shape{2 * sizes.batch}) {  // the ends, then the starts
    const std::vector<Value> halves = split_last(node, mask, {sizes.batch, sizes.batch});
    const Value before = places_below(node, halves[1], sizes);
    return both(node, places_below(node, halves[0], sizes), node.emit("not", {before}));
  }
  if (shape == Shape{sizes.batch, sizes.keys}) return as_truth({sizes.batch, 1, 1, sizes.keys});
  if (shape == Shape{sizes.batch, sizes.queries, sizes.keys}) {
    return as_truth({sizes.batch, 1, sizes.queries, sizes.keys});
  }
  node.unsupported(fmt::format(
      "a mask {} isn't supported: [B], [2 B], [B,T] and [B,S,T] are, with B {}, S {} and T {}",
      shape.to_string(), sizes.batch, sizes.queries, sizes.keys));
}

// What attention of either kind has in common once queries, keys and values are by heads.
struct Masks {
  int mask = 0;  ///< inputs
  int bias = 0;
  std::int64_t past = 0;
};

AttentionSteps attend_masked(Node& node, AttentionCall call, const Masks& masks) {
  const Shape q = node.shape(call.q);
  const Sizes sizes{q[0], q[2], node.shape(call.k)[2]};
  const DType dtype = node.dtype(call.q);
  call.scale = scale_of(node, call.q);
  if (const Value shown = unmasked(node, masks.mask, sizes); shown != kNoValue) {
    call.bias = filtered(node, shown, dtype);
  }
  call.bias = added(node, call.bias, node.in_or_none(masks.bias));
  if (node.integer("unidirectional", 0) != 0) {
    call.allowed = seen(node, {.causal = true, .offset = masks.past}, sizes.queries, sizes.keys);
  }
  return attend(node, call);
}

void attention(Node& node) {
  Value projected = node.emit("matmul", {node.in(0), node.in(1)});
  if (node.has(2)) projected = node.emit("add", {projected, node.in(2)});
  attend_projected(node, projected, {.mask = 3, .past = 4, .bias = 5});
}

// Part `at` of [B, S, N, parts, D] as [B, N, S, D].
Value unpacked(Node& node, Value packed, std::int64_t at) {
  return node.transpose(one_of(node, packed, 3, at), {0, 2, 1, 3});
}

// Its share of the bias of all three projections, seen as a head for each.
Value with_bias(Node& node, Value x, const std::vector<Value>& biases, std::size_t which) {
  if (biases.empty()) return x;
  const Shape shape = node.shape(x);
  return node.emit("add", {x, node.reshape(biases[which], {1, shape[1], 1, shape[3]})});
}

struct Heads {
  Value q = kNoValue, k = kNoValue, v = kNoValue;
};

// Queries, keys and values by heads, from whichever way they are given.
Heads heads_of(Node& node) {
  const std::int64_t count = node.required_integer("num_heads");
  const Value query = node.in(0);
  if (node.rank(query) == 5) {
    return {unpacked(node, query, 0), unpacked(node, query, 1), unpacked(node, query, 2)};
  }
  Heads heads;
  heads.q = split_heads(node, query, count);
  const Value key = node.in(1);
  if (node.rank(key) == 5) {
    heads.k = unpacked(node, key, 0);
    heads.v = unpacked(node, key, 1);
    return heads;
  }
  const Value value = node.in(2);
  heads.k = node.rank(key) == 4 ? key : split_heads(node, key, count);
  heads.v = node.rank(value) == 4 ? value : split_heads(node, value, count);
  return heads;
}

void multi_head_attention(Node& node) {
  if (node.has(8) || node.has(9)) {
    node.unsupported("a past that shares its buffer with the present isn't supported");
  }
  const Heads heads = heads_of(node);
  const auto width = [&](Value x) {
    return node.shape(x)[1] * node.shape(x)[3];
  };
  std::vector<Value> biases;
  if (node.has(3)) {
    biases = split_last(node, node.in(3), {width(heads.q), width(heads.k), width(heads.v)});
  }
  AttentionCall call;
  call.q = with_bias(node, heads.q, biases, 0);
  call.k = with_bias(node, heads.k, biases, 1);
  call.v = with_bias(node, heads.v, biases, 2);
  Masks masks{.mask = 4, .bias = 5};
  if (node.has(6)) {
    masks.past = node.shape(node.in(6))[2];
    call.k = concat(node, {node.in(6), call.k}, 2);
    call.v = concat(node, {node.in(7), call.v}, 2);
  }
  node.set(1, call.k);
  node.set(2, call.v);
  node.set(0, join_heads(node, attend_masked(node, call, masks).y));
}

// [B, S] or [1, S] of places, from the first one or from each.
Value positions(Node& node, Value given, std::int64_t length) {
  if (node.shape(given).element_count() != 1 || node.rank(given) == 2) return given;
  const Value first = node.reshape(node.cast(given, DType::i64), {1, 1});
  return node.emit("add", {first, node.reshape(places(node, length), {1, length})});
}

void rotary_embedding(Node& node) {
  if (node.integer("is_packed_batching", 0) != 0) {
    node.unsupported("batches packed into one sequence aren't supported");
  }
  if (node.number("scale", 1) != 1) node.unsupported("a scale other than 1 isn't supported");
  const Value x = node.in(0);
  const Shape shape = node.shape(x);
  const bool heads_first = shape.rank() == 4;
  const std::int64_t dim = node.integer("rotary_embedding_dim", 0);
  const std::int64_t size = 2 * node.shape(node.in(2))[1];
  Value parts = x;
  if (!heads_first) {
    if (shape.rank() != 3) node.invalid(fmt::format("its input is {}", shape.to_string()));
    const std::int64_t given = node.integer("num_heads", 0);
    const std::int64_t heads = given > 0 ? given : shape[2] / std::max<std::int64_t>(size, 1);
    if (heads < 1 || shape[2] % heads != 0) {
      node.invalid(fmt::format("{} has no {} heads", shape.to_string(), heads));
    }
    parts = node.reshape(x, {shape[0], shape[1], heads, shape[2] / heads});
  }
  const std::int64_t length = heads_first ? shape[2] : shape[1];
  const Value at = positions(node, node.in(1), length);
  const auto angles = [&](int input) {
    const Value picked = node.emit("gather", {node.in(input), at}, {{"axis", std::int64_t{0}}});
    const Shape by = node.shape(picked);
    return node.reshape(
        picked, heads_first ? Shape{by[0], 1, by[1], by[2]} : Shape{by[0], by[1], 1, by[2]});
  };
  const Value turned = rotated(node, parts,
                               {.cos = angles(2),
                                .sin = angles(3),
                                .dim = dim,
                                .interleaved = node.integer("interleaved", 0) != 0});
  node.set(0, node.reshape(turned, shape));
}

constexpr OnnxOp kRows[] = {
    microsoft("Attention", attention),
    microsoft("MultiHeadAttention", multi_head_attention),
    microsoft("RotaryEmbedding", rotary_embedding),
};

}  // namespace

void attend_projected(Node& node, Value projected, const AttentionInputs& inputs) {
  if (node.integer("do_rotary", 0) != 0) node.unsupported("its do_rotary isn't supported");
  if (node.integer("past_present_share_buffer", 0) != 0) {
    node.unsupported("a past that shares its buffer with the present isn't supported");
  }
  const std::int64_t heads = node.required_integer("num_heads");
  const std::int64_t width = node.shape(projected)[node.rank(projected) - 1];
  const Integers parts =
      node.integers("qkv_hidden_sizes", {width / 3, width / 3, width - 2 * (width / 3)});
  if (parts.size() != 3) {
    node.invalid(fmt::format("its qkv_hidden_sizes are {}: 3 are wanted", parts.size()));
  }
  const std::vector<Value> qkv = split_last(node, projected, parts);
  AttentionCall call;
  call.q = split_heads(node, qkv[0], heads);
  call.k = split_heads(node, qkv[1], heads);
  call.v = split_heads(node, qkv[2], heads);
  Masks masks{.mask = inputs.mask, .bias = inputs.bias};
  if (node.has(inputs.past)) {
    const Value past = node.in(inputs.past);
    masks.past = node.shape(past)[3];
    call.k = concat(node, {one_of(node, past, 0, 0), call.k}, 2);
    call.v = concat(node, {one_of(node, past, 0, 1), call.v}, 2);
  }
  if (node.wants(1)) {
    const auto single = [&](Value value) {
      Dims sizes = {1};
      for (const std::int64_t size : node.shape(value))
        sizes.push_back(size);
      return node.reshape(value, Shape(sizes));
    };
    node.set(1, concat(node, {single(call.k), single(call.v)}, 0));
  }
  node.set(0, join_heads(node, attend_masked(node, call, masks).y));
}

std::span<const OnnxOp> microsoft_attention_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
