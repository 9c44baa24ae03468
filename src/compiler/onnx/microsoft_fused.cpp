#include <limits>

#include <fmt/format.h>

#include "compiler/onnx/fused.hpp"
#include "compiler/onnx/node.hpp"
#include "compiler/onnx/rotary.hpp"

/// onnxruntime's operators that join an op of ONNX with the elementwise ones behind it, as its
/// optimizer writes them into files.
namespace tilemesh::onnx_importer {
namespace {

/// The parameters of a fused activation: a number, or nothing if it isn't given.
struct Activation {
  std::string name;
  std::vector<double> parameters;

  double at(std::size_t i, double fallback) const {
    return i < parameters.size() ? parameters[i] : fallback;
  }
};

Value activated(Node& node, Value x, const Activation& activation) {
  const std::string& name = activation.name;
  if (name.empty()) return x;
  if (name == "Relu") return node.emit("relu", {x});
  if (name == "Sigmoid") return node.emit("sigmoid", {x});
  if (name == "Tanh") return node.emit("tanh", {x});
  if (name == "LeakyRelu") {
    return node.emit("leaky_relu", {x}, {{"alpha", activation.at(0, 0.01)}});
  }
  if (name == "Clip") {
    constexpr double kMost = std::numeric_limits<float>::max();
    return node.emit("clip", {x},
                     {{"min", activation.at(0, -kMost)}, {"max", activation.at(1, kMost)}});
  }
  if (name == "HardSigmoid") {
    return node.emit("hard_sigmoid", {x},
                     {{"alpha", activation.at(0, 0.2)}, {"beta", activation.at(1, 0.5)}});
  }
  node.unsupported(fmt::format("the activation {} isn't supported in it", name));
}

// Conv, plus a fourth operand, through an activation.
void fused_conv(Node& node) {
  Value result = convolved(node);
  if (node.has(3)) result = node.emit("add", {result, node.in(3)});
  node.set(
      0, activated(node, result, {node.text("activation", ""), node.numbers("activation_params")}));
}

void fused_gemm(Node& node) {
  Activation activation{node.text("activation", ""), {}};
  for (const char* name : {"activation_alpha", "activation_beta"}) {
    if (!node.has_attribute(name)) break;
    activation.parameters.push_back(node.number(name, 0));
  }
  node.set(0, activated(node, gemm_of(node), activation));
}

// With trans_batch the rows come before the batch: [M, batch..., K].
Value batch_first(Node& node, Value x, bool rows_first) {
  const int rank = node.rank(x);
  if (!rows_first || rank < 3) return x;
  std::vector<std::int64_t> order;
  for (int d = 1; d < rank - 1; ++d)
    order.push_back(d);
  order.push_back(0);
  order.push_back(rank - 1);
  return node.transpose(x, order);
}

void fused_matmul(Node& node) {
  const Value a = batch_first(node, node.in(0), node.integer("transBatchA", 0) != 0);
  const Value b = batch_first(node, node.in(1), node.integer("transBatchB", 0) != 0);
  // A vector has nothing to transpose.
  const auto flag = [&](const char* name, Value x) {
    return std::int64_t{node.integer(name, 0) != 0 && node.rank(x) > 1};
  };
  const Value product = node.emit(
      "matmul", {a, b}, {{"transpose_a", flag("transA", a)}, {"transpose_b", flag("transB", b)}});
  const double alpha = node.number("alpha", 1);
  node.set(
      0, alpha == 1 ? product : node.emit("linear", {product}, {{"alpha", alpha}, {"beta", 0.0}}));
}

Value biased(Node& node, Value x) {
  return node.has(1) ? node.emit("add", {x, node.in(1)}) : x;
}

// Gelu, BiasGelu, FastGelu: the row says which formula.
void gelu(Node& node) {
  const Value x = biased(node, node.in(0));
  node.set(0, node.emit("gelu", {x}, {{"approximate", std::string(node.row().op)}}));
}

void quick_gelu(Node& node) {
  node.set(0, node.emit("swish", {node.in(0)}, {{"alpha", node.number("alpha", 1.702)}}));
}

void bias_add(Node& node) {
  node.set(0, node.emit("add", {node.emit("add", {node.in(0), node.in(1)}), node.in(2)}));
}

// The first half of the channels times the gelu of the second.
void bias_split_gelu(Node& node) {
  const Value x = node.emit("add", {node.in(0), node.in(1)});
  const Shape shape = node.shape(x);
  const std::int64_t channels = shape.rank() == 0 ? 0 : shape[shape.rank() - 1];
  if (channels % 2 != 0 || channels == 0) {
    node.invalid(fmt::format("{} doesn't split into two halves", shape.to_string()));
  }
  const Value gate = node.emit("gelu", {slice_last(node, x, channels / 2, channels)},
                               {{"approximate", std::string("none")}});
  node.set(0, node.emit("mul", {slice_last(node, x, 0, channels / 2), gate}));
}

constexpr OnnxOp kRows[] = {
    microsoft("BiasAdd", bias_add),
    microsoft("BiasGelu", gelu, "none"),
    microsoft("BiasSplitGelu", bias_split_gelu),
    microsoft("FastGelu", gelu, "tanh"),
    microsoft("FusedConv", fused_conv),
    microsoft("FusedGemm", fused_gemm),
    microsoft("FusedMatMul", fused_matmul),
    microsoft("Gelu", gelu, "none"),
    microsoft("QuickGelu", quick_gelu),
    microsoft("TransposeMatMul", fused_matmul),
};

}  // namespace

std::span<const OnnxOp> microsoft_fused_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
