#include <functional>

#include <fmt/format.h>

#include "compiler/onnx/norm.hpp"
#include "compiler/onnx/quantization.hpp"

/// onnxruntime's normalisations of sums, as its optimizer and its exporters write them.
namespace tilemesh::onnx_importer {
namespace {

// input + skip (+ bias); a skip without the batch stands for all samples.
Value skipped(Node& node, int bias) {
  Value sum = node.emit("add", {node.in(0), node.in(1)});
  if (node.has(bias)) sum = node.emit("add", {sum, node.in(bias)});
  if (!(node.shape(sum) == node.shape(node.in(0)))) {
    node.invalid(fmt::format("its skip {} or bias doesn't broadcast to its input {}",
                             node.shape(node.in(1)).to_string(),
                             node.shape(node.in(0)).to_string()));
  }
  return sum;
}

void skip_layer_normalization(Node& node) {
  const Value sum = skipped(node, 4);
  const int outputs = node.wants(2) ? 3 : node.wants(1) ? 2 : 1;
  node.set_all(layer_normal(node, sum, node.in(2), node.in_or_none(3), node.rank(sum) - 1,
                            node.number("epsilon", 1e-12), outputs));
  node.set(3, sum);
}

void skip_simplified_layer_normalization(Node& node) {
  const Value sum = skipped(node, 3);
  const DType dtype = node.dtype(sum);
  const Value wide = node.cast(sum, DType::f32);
  const RmsNorm norm =
      rms_normal(node, wide, node.rank(sum) - 1, node.number("epsilon", 1e-12), DType::f32);
  const Value scaled = node.emit("mul", {norm.normal, node.cast(node.in(2), DType::f32)});
  node.set(0, node.cast(scaled, dtype));
  node.set(2, norm.inverse);
  node.set(3, sum);
}

// [S] as 0, 1, ... where the positions aren't given.
Value positions(Node& node, int input, std::int64_t length) {
  if (node.has(input)) return node.in(input);
  std::vector<std::int64_t> places(static_cast<std::size_t>(length));
  for (std::size_t i = 0; i < places.size(); ++i)
    places[i] = static_cast<std::int64_t>(i);
  return node.constant(make_constant(Shape{1, length}, places));
}

// How many words of each sample are there: zero without a mask, as onnxruntime has it.
Value mask_index(Node& node, std::int64_t batch) {
  if (!node.has(7)) return node.expand(node.scalar(DType::i32, 0), {batch});
  const Value mask = node.cast(node.in(7), DType::i32);
  return node.emit("reduce_sum", {mask},
                   {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", std::int64_t{0}}});
}

/// How a node gives its tables (inputs 2 to 4) and factors (5 and 6): what is read of one, or all
/// of it without indices.
using Reader = std::function<Value(int input, Value indices)>;

void embed(Node& node, int places_input, const Reader& read) {
  const Value words = node.in(0);
  const Shape shape = node.shape(words);
  if (shape.rank() != 2) {
    node.invalid(fmt::format("its input_ids are {}: [B,S] is wanted", shape.to_string()));
  }
  const Value places = positions(node, places_input, shape[1]);
  Value sum = node.emit("add", {read(2, words), read(3, places)});
  if (node.has(1) && node.has(4)) sum = node.emit("add", {sum, read(4, node.in(1))});
  node.set(0, layer_normal(node, sum, read(5, kNoValue), read(6, kNoValue), 2,
                           node.number("epsilon", 1e-12))[0]);
  if (node.wants(1)) node.set(1, mask_index(node, shape[0]));
  node.set(2, sum);
}

Value picked(Node& node, Value table, Value indices) {
  if (indices == kNoValue) return table;
  return node.emit("gather", {table, indices}, {{"axis", std::int64_t{0}}});
}

void embed_layer_normalization(Node& node) {
  embed(node, 8, [&](int input, Value indices) { return picked(node, node.in(input), indices); });
}

// Scales are inputs 8 to 12, zero points 13 to 17; only what is picked is made real.
void quantized_embed_layer_normalization(Node& node) {
  constexpr int kNoInput = -1;
  embed(node, kNoInput, [&](int input, Value indices) {
    return dequantized(node, {picked(node, node.in(input), indices), node.in(input + 6),
                              node.in_or_none(input + 11)});
  });
}

constexpr OnnxOp kRows[] = {
    microsoft("EmbedLayerNormalization", embed_layer_normalization),
    microsoft("QEmbedLayerNormalization", quantized_embed_layer_normalization),
    microsoft("SkipLayerNormalization", skip_layer_normalization),
    microsoft("SkipSimplifiedLayerNormalization", skip_simplified_layer_normalization),
};

}  // namespace

std::span<const OnnxOp> microsoft_norm_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
