#include <algorithm>

#include <fmt/format.h>

#include "compiler/onnx/fused.hpp"
#include "compiler/onnx/node.hpp"

/// Products of matrices.
namespace tilemesh::onnx_importer {
namespace {

Value scaled(Node& node, Value x, double factor) {
  if (factor == 1) return x;
  if (is_float(node.dtype(x))) return node.emit("linear", {x}, {{"alpha", factor}, {"beta", 0.0}});
  return node.emit("mul", {x, node.scalar(node.dtype(x), factor)});
}

void gemm(Node& node) {
  node.set(0, gemm_of(node));
}

void einsum(Node& node) {
  std::string equation = node.text("equation", "");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  if (equation.empty()) node.invalid("it lacks an equation");
  node.set(0, node.emit("einsum", node.inputs(), {{"equation", equation}}));
}

}  // namespace

Value gemm_of(Node& node) {
  const Value a = node.in(0);
  const Value b = node.in(1);
  if (node.rank(a) != 2 || node.rank(b) != 2) {
    node.invalid(fmt::format("it wants two matrices, not {} and {}", node.shape(a).to_string(),
                             node.shape(b).to_string()));
  }
  const Value product = node.emit("matmul", {a, b},
                                  {{"transpose_a", std::int64_t{node.integer("transA", 0) != 0}},
                                   {"transpose_b", std::int64_t{node.integer("transB", 0) != 0}}});
  Value result = scaled(node, product, node.number("alpha", 1));
  const double beta = node.number("beta", 1);
  if (node.has(2) && beta != 0) {
    const Shape wanted = node.shape(product);
    if (!(broadcast(node.shape(node.in(2)), wanted) == wanted)) {
      node.invalid(fmt::format("C is {}, which doesn't broadcast to {}",
                               node.shape(node.in(2)).to_string(), wanted.to_string()));
    }
    result = node.emit("add", {result, scaled(node, node.in(2), beta)});
  }
  return result;
}

namespace {

constexpr OnnxOp kRows[] = {
    {.name = "Einsum", .since = 12, .handler = einsum},
    {.name = "Gemm", .since = 7, .handler = gemm},
    {.name = "MatMul", .handler = direct, .op = "matmul"},
};

}  // namespace

std::span<const OnnxOp> matmul_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
