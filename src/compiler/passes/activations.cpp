#include <cmath>
#include <numbers>
#include <optional>

#include "compiler/passes/constants.hpp"
#include "compiler/passes/pass.hpp"
#include "compiler/passes/rewriter.hpp"

namespace tilemesh::passes {
namespace {

double number(const GraphNode& node, std::string_view name) {
  return node.attributes.number(name);
}

bool is_scaled(const GraphNode& linear, double alpha, double beta) {
  return is_about(number(linear, "alpha"), alpha) &&
         std::abs(number(linear, "beta") - beta) <= 1e-6;
}

// clip(linear(x; a, b); 0, hi): what is left of a hard sigmoid before its last factor.
struct HardRamp {
  GraphValueId x = kNoValue;
  double alpha = 1, beta = 0;
  double top = 1;
};

std::optional<HardRamp> hard_ramp(const Rewriter& rewriter, GraphValueId id) {
  const GraphNode* clip = rewriter.made_by(id, "clip");
  if (clip == nullptr || number(*clip, "min") != 0) return std::nullopt;
  const double top = number(*clip, "max");
  if (!std::isfinite(top) || top <= 0) return std::nullopt;
  const GraphNode* linear = rewriter.made_by(clip->inputs[0], "linear");
  if (linear == nullptr) return std::nullopt;
  return HardRamp{linear->inputs[0], number(*linear, "alpha"), number(*linear, "beta"), top};
}

// linear(clip(linear(x), 0, top); 1 / top): hard_sigmoid.
bool find_hard_sigmoid(Rewriter& rewriter, GraphNode& node) {
  std::optional<HardRamp> ramp;
  if (node.def->name == "linear") {
    ramp = hard_ramp(rewriter, node.inputs[0]);
    if (ramp && !is_scaled(node, 1 / ramp->top, 0)) ramp.reset();
  } else {
    ramp = hard_ramp(rewriter, node.outputs[0]);
    if (ramp && ramp->top != 1) ramp.reset();
  }
  if (!ramp) return false;
  rewriter.become(node, "hard_sigmoid", {ramp->x},
                  {{"alpha", ramp->alpha / ramp->top}, {"beta", ramp->beta / ramp->top}});
  return true;
}

// linear(x * clip(x + 3, 0, 6); 1/6).
bool find_scaled_hard_swish(Rewriter& rewriter, GraphNode& node) {
  const GraphNode* product = rewriter.made_only_for(node, node.inputs[0], "mul");
  if (product == nullptr || !is_scaled(node, 1.0 / 6, 0)) return false;
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}}) {
    const std::optional<HardRamp> ramp = hard_ramp(rewriter, product->inputs[at]);
    const GraphValueId x = product->inputs[1 - at];
    if (!ramp || ramp->x != x || !is_about(ramp->top, 6)) continue;
    if (!is_about(ramp->alpha, 1) || !is_about(ramp->beta, 3)) continue;
    rewriter.become(node, "hard_swish", {x});
    return true;
  }
  return false;
}

// x * gate(x), as the op it spells.
bool find_gated(Rewriter& rewriter, GraphNode& node, GraphValueId x, GraphValueId gate) {
  if (const GraphNode* hard = rewriter.made_by(gate, "hard_sigmoid")) {
    const bool matches = hard->inputs[0] == x && is_about(number(*hard, "alpha"), 1.0 / 6) &&
                         is_about(number(*hard, "beta"), 0.5);
    if (matches) rewriter.become(node, "hard_swish", {x});
    return matches;
  }
  const GraphNode* sigmoid = rewriter.made_by(gate, "sigmoid");
  if (sigmoid == nullptr) return false;
  if (sigmoid->inputs[0] == x) {
    rewriter.become(node, "swish", {x}, {{"alpha", 1.0}});
    return true;
  }
  const GraphNode* linear = rewriter.made_by(sigmoid->inputs[0], "linear");
  if (linear == nullptr || linear->inputs[0] != x || number(*linear, "beta") != 0) return false;
  rewriter.become(node, "swish", {x}, {{"alpha", number(*linear, "alpha")}});
  return true;
}

// p * (1 + erf(x / sqrt(2))): its x and p.
struct ErfGate {
  GraphValueId x = kNoValue;
  double factor = 0;
};

std::optional<ErfGate> erf_gate(const Rewriter& rewriter, GraphValueId id) {
  const GraphNode* linear = rewriter.made_by(id, "linear");
  if (linear == nullptr) return std::nullopt;
  const double factor = number(*linear, "alpha");
  if (!is_about(number(*linear, "beta"), factor)) return std::nullopt;
  const GraphNode* erf = rewriter.made_by(linear->inputs[0], "erf");
  if (erf == nullptr) return std::nullopt;
  const GraphNode* scale = rewriter.made_by(erf->inputs[0], "linear");
  // Exporters write sqrt(2) with few digits.
  const bool matches = scale != nullptr && number(*scale, "beta") == 0 &&
                       std::abs(number(*scale, "alpha") - 1 / std::numbers::sqrt2) < 1e-5;
  return matches ? std::optional(ErfGate{scale->inputs[0], factor}) : std::nullopt;
}

// q * x * p * (1 + erf(x / sqrt(2))): x, if p * q * `outer` is 1/2.
std::optional<GraphValueId> gelu_argument(const Rewriter& rewriter, const GraphNode& product,
                                          double outer) {
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}}) {
    const std::optional<ErfGate> gate = erf_gate(rewriter, product.inputs[at]);
    if (!gate) continue;
    GraphValueId other = product.inputs[1 - at];
    double factor = gate->factor * outer;
    if (other != gate->x) {
      const GraphNode* linear = rewriter.made_by(other, "linear");
      if (linear == nullptr || number(*linear, "beta") != 0) continue;
      factor *= number(*linear, "alpha");
      other = linear->inputs[0];
    }
    if (other == gate->x && is_about(factor, 0.5)) return other;
  }
  return std::nullopt;
}

bool find_gelu(Rewriter& rewriter, GraphNode& node) {
  std::optional<GraphValueId> x;
  if (node.def->name == "mul") {
    x = gelu_argument(rewriter, node, 1);
  } else if (number(node, "beta") == 0) {
    const GraphNode* product = rewriter.made_only_for(node, node.inputs[0], "mul");
    if (product != nullptr) x = gelu_argument(rewriter, *product, number(node, "alpha"));
  }
  if (x) rewriter.become(node, "gelu", {*x}, {{"approximate", std::string("none")}});
  return x.has_value();
}

bool find_activation(Rewriter& rewriter, GraphNode& node) {
  if (node.outputs.size() != 1 || !is_mapped(rewriter.type(node.outputs[0]).dtype)) return false;
  const std::string_view op = node.def->name;
  if (op == "clip") return find_hard_sigmoid(rewriter, node);
  if (op == "linear") {
    return find_hard_sigmoid(rewriter, node) || find_scaled_hard_swish(rewriter, node) ||
           find_gelu(rewriter, node);
  }
  if (op != "mul" || node.inputs[0] == node.inputs[1]) return false;
  return find_gated(rewriter, node, node.inputs[0], node.inputs[1]) ||
         find_gated(rewriter, node, node.inputs[1], node.inputs[0]) || find_gelu(rewriter, node);
}

}  // namespace

bool find_activations(Graph& graph) {
  return rewrite(graph, find_activation);
}

}  // namespace tilemesh::passes
