#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace tilemesh::onnx_importer {

class Node;

/// A float attribute that an op takes over: its name in ONNX, its name in our table, its default.
struct NumberRow {
  std::string_view name;
  std::string_view ours;
  double fallback = 0;
};

/// How one ONNX operator is imported.
struct OnnxOp {
  std::string_view name;
  int since = 1;  ///< the first opset whose meaning of the op the handler implements
  void (*handler)(Node& node) = nullptr;
  std::string_view op = {};               ///< our op, for handlers that serve many rows
  unsigned values_needed = 0;             ///< bit i: the value of input i shapes the program
  std::array<NumberRow, 2> numbers = {};  ///< attributes taken over by `direct`
  std::string_view domain = {};           ///< empty: ai.onnx
  bool takes_lists = false;               ///< its inputs may be sequences and optionals
};

inline constexpr std::string_view kMicrosoft = "com.microsoft";

/// The row of an operator of onnxruntime's own.
constexpr OnnxOp microsoft(std::string_view name, void (*handler)(Node&),
                           std::string_view op = {}) {
  return {.name = name, .handler = handler, .op = op, .domain = kMicrosoft};
}

/// "; did you mean ...?" with the ops of the domain that have close names, or nothing.
std::string close_onnx_ops(std::string_view domain, std::string_view name);
/// Null if there is none of that name in the domain ("" and "ai.onnx" are the same).
const OnnxOp* find_onnx_op(std::string_view domain, std::string_view name);
/// Why an op isn't there, for those that one might expect; empty for others.
std::string_view reason_for_absence(std::string_view domain, std::string_view name);

// The rows, one array per theme.
std::span<const OnnxOp> elementwise_rows();
std::span<const OnnxOp> generator_rows();
std::span<const OnnxOp> shape_rows();
std::span<const OnnxOp> slice_rows();
std::span<const OnnxOp> resize_rows();
std::span<const OnnxOp> conv_rows();
std::span<const OnnxOp> matmul_rows();
std::span<const OnnxOp> norm_rows();
std::span<const OnnxOp> reduce_rows();
std::span<const OnnxOp> index_rows();
std::span<const OnnxOp> loss_rows();
std::span<const OnnxOp> quantize_rows();
std::span<const OnnxOp> integer_product_rows();
std::span<const OnnxOp> recurrent_rows();
std::span<const OnnxOp> control_rows();
std::span<const OnnxOp> bounded_rows();
std::span<const OnnxOp> sampling_rows();
std::span<const OnnxOp> spectrum_rows();
std::span<const OnnxOp> bit_rows();
std::span<const OnnxOp> transformer_rows();
std::span<const OnnxOp> recurrence_rows();
std::span<const OnnxOp> microsoft_fused_rows();
std::span<const OnnxOp> microsoft_norm_rows();
std::span<const OnnxOp> microsoft_attention_rows();
std::span<const OnnxOp> group_query_attention_rows();
std::span<const OnnxOp> loop_rows();
std::span<const OnnxOp> sequence_rows();
std::span<const OnnxOp> training_rows();
std::span<const OnnxOp> quantized_op_rows();
std::span<const OnnxOp> quantized_product_rows();
std::span<const OnnxOp> packed_weight_rows();
std::span<const OnnxOp> dynamic_lstm_rows();

/// The handler of rows that need no code: the op `row.op` on all inputs, with `row.numbers`.
void direct(Node& node);

}  // namespace tilemesh::onnx_importer
