#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "compiler/onnx/attention.hpp"
#include "compiler/onnx/norm.hpp"
#include "compiler/onnx/rotary.hpp"
#include "compiler/onnx/tensor.hpp"

/// ai.onnx's operators of transformers.
namespace tilemesh::onnx_importer {
namespace {

constexpr int kQuery = 0;
constexpr int kKey = 1;
constexpr int kValue = 2;
constexpr int kMask = 3;
constexpr int kPastKey = 4;
constexpr int kPastValue = 5;
constexpr int kLengths = 6;

Value by_heads(Node& node, int input, std::string_view attribute) {
  const Value value = node.in(input);
  if (node.rank(value) == 4) return value;
  return split_heads(node, value, node.required_integer(attribute));
}

Value after(Node& node, int past, Value value) {
  if (!node.has(past)) return value;
  return node.emit("concat", {node.in(past), value}, {{"axis", std::int64_t{2}}});
}

// From opset 24 on a mask may be shorter than the keys: those behind its end aren't seen.
Value whole_mask(Node& node, Value mask, std::int64_t keys) {
  const Shape shape = node.shape(mask);
  const std::int64_t last = shape.rank() - 1;
  if (node.version() < 24 || shape.rank() == 0 || shape[static_cast<int>(last)] >= keys) {
    return mask;
  }
  const std::int64_t missing = keys - shape[static_cast<int>(last)];
  const DType dtype = node.dtype(mask);
  const double unseen = dtype == DType::boolean ? 0 : -std::numeric_limits<double>::infinity();
  const Value rest =
      node.expand(node.scalar(dtype, unseen), shape.with(static_cast<int>(last), missing));
  return node.emit("concat", {mask, rest}, {{"axis", last}});
}

Sight sight_of(Node& node, std::int64_t queries) {
  Sight sight{.causal = node.integer("is_causal", 0) != 0,
              .left = node.integer("left_window_size", -1),
              .right = node.integer("right_window_size", -1)};
  if (node.has(kPastKey)) {
    sight.offset = node.shape(node.in(kPastKey))[2];
  } else if (node.has(kLengths)) {
    const Value lengths = node.cast(node.in(kLengths), DType::i64);
    const Value count = node.constant(make_constant<std::int64_t>({}, {queries}));
    sight.offsets = node.emit("sub", {lengths, count});
  }
  return sight;
}

void set_attention_outputs(Node& node, const AttentionSteps& steps) {
  node.set(0, node.rank(node.in(kQuery)) == 3 ? join_heads(node, steps.y) : steps.y);
  if (!node.wants(3)) return;
  switch (node.integer("qk_matmul_output_mode", 0)) {
    case 0: return node.set(3, steps.scores);
    case 1: return node.set(3, steps.capped);
    case 2: return node.set(3, steps.biased);
    case 3: return node.set(3, steps.weights);
    default: node.invalid("its qk_matmul_output_mode is none of 0 to 3");
  }
}

void attention(Node& node) {
  if (node.has(kPastKey) != node.has(kPastValue)) {
    node.invalid("it has one of past_key and past_value: both or none are wanted");
  }
  AttentionCall call;
  call.q = by_heads(node, kQuery, "q_num_heads");
  call.k = after(node, kPastKey, by_heads(node, kKey, "kv_num_heads"));
  call.v = after(node, kPastValue, by_heads(node, kValue, "kv_num_heads"));
  node.set(1, call.k);
  node.set(2, call.v);
  const std::int64_t queries = node.shape(call.q)[2];
  const std::int64_t keys = node.shape(call.k)[2];
  const auto size = static_cast<double>(node.shape(call.q)[3]);
  call.scale = node.number("scale", 1 / std::sqrt(size));
  call.softcap = node.number("softcap", 0);
  if (node.has_attribute("softmax_precision")) {
    call.softmax_dtype = dtype_of(node.integer("softmax_precision", 1), "softmax_precision");
  }
  call.allowed = seen(node, sight_of(node, queries), queries, keys);
  if (node.has(kLengths)) {
    call.allowed = both(node, call.allowed, within(node, node.in(kLengths), keys));
  }
  if (node.has(kMask)) {
    const Value mask = whole_mask(node, node.in(kMask), keys);
    if (node.dtype(mask) == DType::boolean) {
      call.allowed = both(node, call.allowed, mask);
    } else {
      call.bias = node.cast(mask, node.dtype(call.q));
    }
  }
  set_attention_outputs(node, attend(node, call));
}

// Angles by position, or for each sample and place, seen between the heads of x.
Value angles(Node& node, int input, bool heads_first) {
  Value value = node.in(input);
  if (node.has(3)) value = node.emit("gather", {value, node.in(3)}, {{"axis", std::int64_t{0}}});
  const Shape shape = node.shape(value);
  if (shape.rank() != 3) {
    node.invalid(
        fmt::format("its cosines or sines are {}: [B,S,half] is wanted, or [P,half] with "
                    "position_ids [B,S]",
                    node.shape(node.in(input)).to_string()));
  }
  return node.reshape(value, heads_first ? Shape{shape[0], 1, shape[1], shape[2]}
                                         : Shape{shape[0], shape[1], 1, shape[2]});
}

void rotary_embedding(Node& node) {
  const Value x = node.in(0);
  const Shape shape = node.shape(x);
  const bool heads_first = shape.rank() == 4;
  Value parts = x;
  if (!heads_first) {
    const std::int64_t heads = node.required_integer("num_heads");
    if (shape.rank() != 3 || heads < 1 || shape[2] % heads != 0) {
      node.invalid(fmt::format("{} has no {} heads", shape.to_string(), heads));
    }
    parts = node.reshape(x, {shape[0], shape[1], heads, shape[2] / heads});
  }
  const Value turned = rotated(node, parts,
                               {.cos = angles(node, 1, heads_first),
                                .sin = angles(node, 2, heads_first),
                                .dim = node.integer("rotary_embedding_dim", 0),
                                .interleaved = node.integer("interleaved", 0) != 0});
  node.set(0, node.reshape(turned, shape));
}

void rms_normalization(Node& node) {
  const Value x = node.in(0);
  const Value scale = node.in(1);
  const DType dtype = dtype_of(node.integer("stash_type", 1), "stash_type");
  const RmsNorm norm =
      rms_normal(node, x, node.axis(-1, node.rank(x)), node.number("epsilon", 1e-5), dtype);
  node.set(0, node.emit("mul", {node.cast(norm.normal, node.dtype(scale)), scale}));
}

void tensor_scatter(Node& node) {
  const Value cache = node.in(0);
  const Value update = node.in(1);
  const Shape shape = node.shape(cache);
  const auto axis = static_cast<int>(node.axis(-2, shape.rank()));
  const Shape part = node.shape(update);
  if (axis == 0 || part.rank() != shape.rank() || part[axis] > shape[axis] ||
      !(part.with(axis, shape[axis]) == shape)) {
    node.invalid(fmt::format("the update {} doesn't fit the cache {} along axis {}",
                             part.to_string(), shape.to_string(), axis));
  }
  const std::string mode = node.text("mode", "linear");
  if (mode != "linear" && mode != "circular") {
    node.invalid(fmt::format("its mode is \"{}\": linear or circular is wanted", mode));
  }
  node.set(
      0, written_at(node, cache, update,
                    {.axis = axis, .starts = node.in_or_none(2), .circular = mode == "circular"}));
}

constexpr OnnxOp kRows[] = {
    {.name = "Attention", .since = 23, .handler = attention},
    {.name = "RMSNormalization", .since = 23, .handler = rms_normalization},
    {.name = "RotaryEmbedding", .since = 23, .handler = rotary_embedding},
    {.name = "Swish",
     .since = 24,
     .handler = direct,
     .op = "swish",
     .numbers = {NumberRow{"alpha", "alpha", 1}}},
    {.name = "TensorScatter", .since = 24, .handler = tensor_scatter},
};

}  // namespace

std::span<const OnnxOp> transformer_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
