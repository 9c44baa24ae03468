#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "compiler/onnx/attention.hpp"
#include "compiler/onnx/rotary.hpp"

/// onnxruntime's GroupQueryAttention, which the decoders of language models are published with.
namespace tilemesh::onnx_importer {
namespace {

constexpr int kQuery = 0;
constexpr int kKey = 1;
constexpr int kValue = 2;
constexpr int kPastKey = 3;
constexpr int kPastValue = 4;
constexpr int kLengths = 5;
constexpr int kTotal = 6;
constexpr int kCos = 7;
constexpr int kSin = 8;
constexpr int kBias = 10;

using Integers = std::vector<std::int64_t>;

void refuse_the_rest(Node& node) {
  const auto refuse = [&](bool is_there, const char* what) {
    if (is_there) node.unsupported(fmt::format("its {} isn't supported", what));
  };
  refuse(node.integer("smooth_softmax", 0) > 0 || node.has(11), "smooth softmax");
  refuse(node.has(12) || node.has(13), "quantized cache");
  refuse(node.has(14) || node.has(15), "norm of queries and keys");
  refuse(node.integer("sliding_window_cache", 0) != 0, "sliding_window_cache");
  refuse(node.integer("qk_output", 0) != 0, "qk_output");
}

/// Queries, keys and values by heads: [B, N, S, D], [B, M, S, D] twice.
struct Heads {
  Value q = kNoValue, k = kNoValue, v = kNoValue;
};

Heads heads_of(Node& node) {
  const std::int64_t queries = node.required_integer("num_heads");
  const std::int64_t keys = node.required_integer("kv_num_heads");
  const Value query = node.in(kQuery);
  if (node.has(kKey)) {
    return {split_heads(node, query, queries), split_heads(node, node.in(kKey), keys),
            split_heads(node, node.in(kValue), keys)};
  }
  // All in one: every head of the queries, then of the keys, then of the values.
  const Value all = split_heads(node, query, queries + 2 * keys);
  const std::vector<Value> parts = node.emit_many(
      "split", {all}, {{"axis", std::int64_t{1}}, {"sizes", Integers{queries, keys, keys}}}, 3);
  return {parts[0], parts[1], parts[2]};
}

/// How a step lies in its sequences.
struct Span {
  std::int64_t batch = 0;
  std::int64_t length = 0;  ///< new tokens
  std::int64_t past = 0;    ///< places in the cache that comes in
  std::int64_t tokens = 0;  ///< of the longest sample, the new ones among them
  std::int64_t total = 0;   ///< places in the cache that goes out
  Value starts = kNoValue;  ///< i64 [B]: tokens of each sample before the new ones
};

Span span_of(Node& node, Value q) {
  const Shape shape = node.shape(q);
  Span span{.batch = shape[0], .length = shape[2]};
  if (node.has(kPastKey)) span.past = node.shape(node.in(kPastKey))[2];
  const std::int64_t tokens = node.known_integer(kTotal, "total_sequence_length");
  span.tokens = tokens;
  span.total = std::max(span.past, tokens);
  if (tokens < span.length) {
    node.invalid(
        fmt::format("total_sequence_length is {}, {} tokens are new", tokens, span.length));
  }
  if (tokens == span.length || span.batch == 1) {
    // The first step, whose padding is at the end; or one sample, which has no padding.
    span.starts = node.constant(make_constant(
        Shape{span.batch}, Integers(static_cast<std::size_t>(span.batch), tokens - span.length)));
    return span;
  }
  const Value lengths = node.reshape(node.cast(node.in(kLengths), DType::i64), {span.batch});
  const Value back = node.constant(make_constant<std::int64_t>({}, {1 - span.length}));
  span.starts = node.emit("add", {lengths, back});
  return span;
}

Value zeros(Node& node, Value like, std::int64_t places) {
  return node.expand(node.scalar(node.dtype(like), 0), node.shape(like).with(2, places));
}

// The cache with the new rows at each sample's place.
Value cached(Node& node, int past, Value fresh, const Span& span) {
  const bool appends = node.is_constant(span.starts) &&
                       read_as<std::int64_t>(node.data(span.starts))[0] == span.past;
  std::vector<Value> parts;
  if (span.past > 0) parts.push_back(node.in(past));
  if (appends) parts.push_back(fresh);
  const std::int64_t held = span.past + (appends ? span.length : 0);
  if (held < span.total) parts.push_back(zeros(node, fresh, span.total - held));
  const Value cache =
      parts.size() == 1 ? parts[0] : node.emit("concat", parts, {{"axis", std::int64_t{2}}});
  if (appends) return cache;
  return written_at(node, cache, fresh, {.axis = 2, .starts = span.starts});
}

// What is looked at of the cache: a shared buffer has places that aren't in use yet.
Value in_use(Node& node, Value cache, const Span& span) {
  if (span.tokens == span.total) return cache;
  return node.emit("slice", {cache},
                   {{"starts", Integers{0}},
                    {"ends", Integers{span.tokens}},
                    {"axes", Integers{2}},
                    {"steps", Integers{1}}});
}

Value turned(Node& node, Value x, const Span& span) {
  const Value step = node.reshape(places(node, span.length), {1, span.length});
  const Value at = node.emit("add", {node.reshape(span.starts, {span.batch, 1}), step});
  const auto angles = [&](int input) {
    const Value picked = node.emit("gather", {node.in(input), at}, {{"axis", std::int64_t{0}}});
    const Shape shape = node.shape(picked);
    return node.reshape(picked, {shape[0], 1, shape[1], shape[2]});
  };
  return rotated(node, x,
                 {.cos = angles(kCos),
                  .sin = angles(kSin),
                  .dim = 2 * node.shape(node.in(kCos))[1],
                  .interleaved = node.integer("rotary_interleaved", 0) != 0});
}

void group_query_attention(Node& node) {
  refuse_the_rest(node);
  Heads heads = heads_of(node);
  const Span span = span_of(node, heads.q);
  if (node.integer("do_rotary", 0) != 0) {
    heads.q = turned(node, heads.q, span);
    heads.k = turned(node, heads.k, span);
  }
  AttentionCall call;
  call.q = heads.q;
  const Value keys = cached(node, kPastKey, heads.k, span);
  const Value values = cached(node, kPastValue, heads.v, span);
  node.set(1, keys);
  node.set(2, values);
  call.k = in_use(node, keys, span);
  call.v = in_use(node, values, span);
  const double scale = node.number("scale", 0);
  const auto size = static_cast<double>(node.shape(call.q)[3]);
  call.scale = scale != 0 ? scale : 1 / std::sqrt(size);
  call.softcap = node.number("softcap", 0);
  call.bias = node.in_or_none(kBias);
  const std::int64_t window = node.integer("local_window_size", -1);
  const bool causal = node.integer("causal", 1) != 0;
  call.allowed =
      seen(node, {.causal = causal, .left = window > 0 ? window - 1 : -1, .offsets = span.starts},
           span.length, span.tokens);
  if (!causal) {
    const Value one = node.constant(make_constant<std::int64_t>({}, {1}));
    const Value lengths = node.emit("add", {node.cast(node.in(kLengths), DType::i64), one});
    call.allowed = both(node, call.allowed, within(node, lengths, span.tokens));
  }
  node.set(0, join_heads(node, attend(node, call).y));
}

constexpr OnnxOp kRows[] = {
    {.name = "GroupQueryAttention",
     .handler = group_query_attention,
     .values_needed = 1U << kTotal,
     .domain = kMicrosoft},
};

}  // namespace

std::span<const OnnxOp> group_query_attention_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
