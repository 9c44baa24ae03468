#include <algorithm>
#include <cmath>
#include <optional>

#include "compiler/passes/constants.hpp"
#include "compiler/passes/pass.hpp"
#include "compiler/passes/rewriter.hpp"
#include "compiler/passes/rounding.hpp"

namespace tilemesh::passes {
namespace {

// x + -0 is x for every x, the zeros included.
constexpr double kNothing = -0.0;

// `alpha * x + beta` in the place of a call with one scalar constant. NaN is no attribute.
struct Linear {
  GraphValueId x = kNoValue;
  double alpha = 1;
  double beta = kNothing;
};

std::optional<Linear> as_linear(const Graph& graph, const GraphNode& node) {
  const std::string_view op = node.def->name;
  if (op != "add" && op != "sub" && op != "mul" && op != "div") return std::nullopt;
  for (const std::size_t at : {std::size_t{1}, std::size_t{0}}) {
    const std::optional<double> value = splat(graph, node.inputs[at]);
    const GraphValueId x = node.inputs[1 - at];
    if (!value || std::isnan(*value) || !(graph[x].type.shape == graph[node.outputs[0]].type.shape))
      continue;
    if (op == "add") return Linear{x, 1, *value};
    if (op == "mul") return Linear{x, *value, kNothing};
    if (op == "sub") return at == 1 ? Linear{x, 1, -*value} : Linear{x, -1, *value};
    if (at == 1 && has_exact_reciprocal(*value)) return Linear{x, 1 / *value, kNothing};
  }
  return std::nullopt;
}

void become_linear(Rewriter& rewriter, GraphNode& node, const Linear& linear) {
  rewriter.become(node, "linear", {linear.x}, {{"alpha", linear.alpha}, {"beta", linear.beta}});
}

bool is_nothing(double beta) {
  return beta == 0 && std::signbit(beta);
}

// linear(linear(x)) in one step where one of them only turns the sign: anything else would round
// once where the graph rounds twice, and sums that cancel would not have been rounded at all.
bool merge_linear(Rewriter& rewriter, GraphNode& node) {
  const GraphNode* before = rewriter.made_by(node.inputs[0], "linear");
  if (before == nullptr) return false;
  const double alpha = node.attributes.number("alpha");
  const double beta = node.attributes.number("beta");
  const double first_alpha = before->attributes.number("alpha");
  const double first_beta = before->attributes.number("beta");
  Linear both{before->inputs[0], alpha * first_alpha, kNothing};
  if (is_sign(first_alpha) && is_nothing(first_beta)) {
    both.beta = beta;
  } else if (!is_sign(alpha) || !is_nothing(beta) || !is_nothing(first_beta)) {
    return false;  // the sign of a sum that is 0 turns as well
  }
  become_linear(rewriter, node, both);
  return true;
}

bool simplify_pow(Rewriter& rewriter, GraphNode& node) {
  const GraphValueId x = node.inputs[0];
  const std::optional<double> exponent = splat(rewriter.graph(), node.inputs[1]);
  if (!exponent || !(rewriter.type(x).shape == rewriter.type(node.outputs[0]).shape)) return false;
  if (*exponent == 1) {
    rewriter.become(node, "identity", {x});
  } else if (*exponent == 2) {
    rewriter.become(node, "mul", {x, x});
  } else if (*exponent == -1) {
    rewriter.become(node, "reciprocal", {x});
  } else {
    return false;
  }
  return true;
}

bool simplify(Rewriter& rewriter, GraphNode& node) {
  if (node.outputs.size() != 1 || !node.epilogue.empty()) return false;
  if (!is_mapped(rewriter.type(node.outputs[0]).dtype)) return false;
  const std::string_view op = node.def->name;
  if (op == "linear") return merge_linear(rewriter, node);
  if (op == "pow") return simplify_pow(rewriter, node);
  if (op == "neg") {
    become_linear(rewriter, node, {node.inputs[0], -1, kNothing});
    return true;
  }
  const std::optional<Linear> linear = as_linear(rewriter.graph(), node);
  if (linear) become_linear(rewriter, node, *linear);
  return linear.has_value();
}

}  // namespace

bool simplify_arithmetic(Graph& graph) {
  return rewrite(graph, simplify);
}

}  // namespace tilemesh::passes
