#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "compiler/passes/constants.hpp"
#include "compiler/passes/pass.hpp"
#include "compiler/passes/rewriter.hpp"

namespace tilemesh::passes {
namespace {

using Integers = std::vector<std::int64_t>;

bool has_input_type(const Rewriter& rewriter, const GraphNode& node) {
  const OperandType& in = rewriter.type(node.inputs[0]);
  const OperandType& out = rewriter.type(node.outputs[0]);
  return in.shape == out.shape && in.dtype == out.dtype;
}

// Ops that give their first input back when shape and dtype stay as they are.
constexpr std::array<std::string_view, 6> kSameTypeIsNoOp = {"identity", "cast", "reshape",
                                                             "expand",   "tile", "convert"};

bool is_plain_slice(const GraphNode& node) {
  return std::ranges::all_of(node.attributes.integers("steps"),
                             [](std::int64_t step) { return step == 1; });
}

bool is_no_op(const Rewriter& rewriter, const GraphNode& node) {
  const std::string_view op = node.def->name;
  if (node.inputs.empty() || node.inputs[0] == kNoValue || node.outputs.size() != 1) return false;
  if (!has_input_type(rewriter, node)) return false;
  if (std::ranges::find(kSameTypeIsNoOp, op) != kSameTypeIsNoOp.end()) return true;
  const Attributes& attributes = node.attributes;
  if (op == "slice") return is_plain_slice(node);
  if (op == "concat" || op == "split") return node.inputs.size() == 1;
  if (op == "pad") {
    return std::ranges::all_of(attributes.integers("pads"),
                               [](std::int64_t pad) { return pad == 0; });
  }
  if (op == "linear") {
    const double beta = attributes.number("beta");
    return attributes.number("alpha") == 1 && beta == 0 && std::signbit(beta);  // -0 + 0 is 0
  }
  if (op == "clip") {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    return attributes.number("min") == -kInf && attributes.number("max") == kInf;
  }
  return false;
}

// True if the dims that are longer than 1 keep their order: the bytes stay where they are.
bool keeps_order(const Shape& shape, const Integers& order) {
  std::int64_t last = -1;
  for (const std::int64_t dim : order) {
    if (shape[static_cast<int>(dim)] == 1) continue;
    if (dim < last) return false;
    last = dim;
  }
  return true;
}

Attributes shape_attribute(const Shape& shape) {
  return {{"shape", Integers(shape.begin(), shape.end())}};
}

bool simplify_transpose(Rewriter& rewriter, GraphNode& node) {
  const Integers order = node.attributes.integers("order");
  if (const GraphNode* before = rewriter.made_by(node.inputs[0], "transpose")) {
    const Integers& first = before->attributes.integers("order");
    Integers both;
    for (const std::int64_t dim : order)
      both.push_back(first[static_cast<std::size_t>(dim)]);
    rewriter.become(node, "transpose", {before->inputs[0]}, {{"order", both}});
    return true;
  }
  if (!keeps_order(rewriter.type(node.inputs[0]).shape, order)) return false;
  rewriter.become(node, "reshape", {node.inputs[0]},
                  shape_attribute(rewriter.type(node.outputs[0]).shape));
  return true;
}

bool simplify_reshape(Rewriter& rewriter, GraphNode& node) {
  const GraphNode* before = rewriter.made_by(node.inputs[0], "reshape");
  if (before == nullptr) return false;
  rewriter.become(node, "reshape", {before->inputs[0]}, node.attributes);
  return true;
}

// Over dims of one element these give the element itself.
constexpr std::array<std::string_view, 5> kOfOneIsItself = {
    "reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"};

bool simplify_reduction(Rewriter& rewriter, GraphNode& node) {
  const OperandType& in = rewriter.type(node.inputs[0]);
  const OperandType& out = rewriter.type(node.outputs[0]);
  if (in.dtype != out.dtype || in.shape.element_count() != out.shape.element_count()) return false;
  // With a zero size equal counts don't mean that only dims of one are reduced.
  if (in.shape.element_count() == 0) return false;
  rewriter.become(node, "reshape", {node.inputs[0]}, shape_attribute(out.shape));
  return true;
}

bool remove_no_op(Rewriter& rewriter, GraphNode& node) {
  if (!node.epilogue.empty()) return false;
  if (is_no_op(rewriter, node)) {
    rewriter.replace(node, node.inputs[0]);
    rewriter.become(node, "identity", {node.inputs[0]});
    return true;
  }
  if (node.def->name == "transpose") return simplify_transpose(rewriter, node);
  if (node.def->name == "reshape") return simplify_reshape(rewriter, node);
  if (std::ranges::find(kOfOneIsItself, node.def->name) != kOfOneIsItself.end()) {
    return simplify_reduction(rewriter, node);
  }
  return false;
}

}  // namespace

bool remove_no_ops(Graph& graph) {
  return rewrite(graph, remove_no_op);
}

}  // namespace tilemesh::passes
