#include <fmt/format.h>

#include "compiler/onnx/importer.hpp"

/// If: taken at once where the condition is known, a branch of the program where it isn't.
namespace tilemesh::onnx_importer {
namespace {

void if_op(Node& node) {
  const Value condition = node.in(0);
  const Shape shape = node.shape(condition);
  if (node.dtype(condition) != DType::boolean || shape.element_count() != 1) {
    node.invalid(fmt::format("its condition must be one bool, not {}{}",
                             to_string(node.dtype(condition)), shape.to_string()));
  }
  const onnx::GraphProto& then_graph = node.graph("then_branch");
  const onnx::GraphProto& else_graph = node.graph("else_branch");
  if (!node.is_constant(condition)) {
    return node.set_all(node.importer().branch(condition, then_graph, else_graph, node.scope(),
                                               node.output_count()));
  }
  const bool taken = node.known_integer(0, "condition") != 0;
  const std::vector<Value> results =
      node.importer().inline_graph(taken ? then_graph : else_graph, node.scope());
  if (std::cmp_not_equal(results.size(), node.output_count())) {
    throw Error(ErrorCode::invalid_file,
                fmt::format("a branch gives {} results, its node has {} outputs", results.size(),
                            node.output_count()));
  }
  node.set_all(results);
}

constexpr OnnxOp kRows[] = {
    {.name = "If", .handler = if_op},
};

}  // namespace

std::span<const OnnxOp> control_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
