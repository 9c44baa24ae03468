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

// A value times a number, written as a product or as a quotient.
struct Scaled {
  GraphValueId x = kNoValue;
  double factor = 1;
};

std::optional<Scaled> as_scaled(const Rewriter& rewriter, const GraphNode& node) {
  const GraphValueId x = node.inputs[0];
  if (node.def->name == "linear" && number(node, "beta") == 0) {
    return Scaled{x, number(node, "alpha")};
  }
  if (node.def->name != "div") return std::nullopt;
  const std::optional<double> divisor = splat(rewriter.graph(), node.inputs[1]);
  const bool fits =
      divisor && *divisor != 0 && rewriter.type(x).shape == rewriter.type(node.outputs[0]).shape;
  return fits ? std::optional(Scaled{x, 1 / *divisor}) : std::nullopt;
}

std::optional<Scaled> as_scaled(const Rewriter& rewriter, GraphValueId id) {
  for (const std::string_view op : {"linear", "div"}) {
    if (const GraphNode* node = rewriter.made_by(id, op)) return as_scaled(rewriter, *node);
  }
  return std::nullopt;
}

// clip(linear(x; a, b); 0, hi): what is left of a hard sigmoid before its last factor. Its error is
// that of numbers up to hi, so b must not be larger.
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
  if (linear == nullptr || std::abs(number(*linear, "beta")) > top) return std::nullopt;
  return HardRamp{linear->inputs[0], number(*linear, "alpha"), number(*linear, "beta"), top};
}

// clip(linear(x), 0, top) / top: hard_sigmoid.
bool find_hard_sigmoid(Rewriter& rewriter, GraphNode& node) {
  std::optional<HardRamp> ramp;
  if (node.def->name != "clip") {
    const std::optional<Scaled> scaled = as_scaled(rewriter, node);
    if (scaled) ramp = hard_ramp(rewriter, scaled->x);
    if (ramp && !is_about(scaled->factor, 1 / ramp->top)) ramp.reset();
  } else {
    ramp = hard_ramp(rewriter, node.outputs[0]);
    if (ramp && ramp->top != 1) ramp.reset();
  }
  if (!ramp) return false;
  rewriter.become(node, "hard_sigmoid", {ramp->x},
                  {{"alpha", ramp->alpha / ramp->top}, {"beta", ramp->beta / ramp->top}});
  return true;
}

// x * clip(x + 3, 0, 6) / 6.
bool find_scaled_hard_swish(Rewriter& rewriter, GraphNode& node) {
  const std::optional<Scaled> scaled = as_scaled(rewriter, node);
  if (!scaled || !is_about(scaled->factor, 1.0 / 6)) return false;
  const GraphNode* product = rewriter.made_only_for(node, scaled->x, "mul");
  if (product == nullptr) return false;
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}}) {
    const std::optional<HardRamp> ramp = hard_ramp(rewriter, product->inputs[at]);
    const GraphValueId x = product->inputs[1 - at];
    if (!ramp || ramp->x != x || ramp->top != 6) continue;
    if (ramp->alpha != 1 || ramp->beta != 3) continue;
    rewriter.become(node, "hard_swish", {x});
    return true;
  }
  return false;
}

// x * gate(x), as the op it spells.
bool find_gated(Rewriter& rewriter, GraphNode& node, GraphValueId x, GraphValueId gate) {
  if (const GraphNode* hard = rewriter.made_by(gate, "hard_sigmoid")) {
    const bool matches = hard->inputs[0] == x && is_about(number(*hard, "alpha"), 1.0 / 6) &&
                         number(*hard, "beta") == 0.5;
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
  const std::optional<Scaled> outer = as_scaled(rewriter, id);
  const GraphNode* linear = rewriter.made_by(outer ? outer->x : id, "linear");
  if (linear == nullptr || number(*linear, "alpha") != number(*linear, "beta")) {
    return std::nullopt;
  }
  const GraphNode* erf = rewriter.made_by(linear->inputs[0], "erf");
  const std::optional<Scaled> argument =
      erf == nullptr ? std::nullopt : as_scaled(rewriter, erf->inputs[0]);
  if (!argument || !is_about(argument->factor, 1 / std::numbers::sqrt2)) return std::nullopt;
  return ErfGate{argument->x, (outer ? outer->factor : 1) * number(*linear, "alpha")};
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
      const std::optional<Scaled> scaled = as_scaled(rewriter, other);
      if (!scaled) continue;
      factor *= scaled->factor;
      other = scaled->x;
    }
    if (other == gate->x && is_about(factor, 0.5)) return other;
  }
  return std::nullopt;
}

bool find_gelu(Rewriter& rewriter, GraphNode& node) {
  std::optional<GraphValueId> x;
  if (node.def->name == "mul") {
    x = gelu_argument(rewriter, node, 1);
  } else if (const std::optional<Scaled> scaled = as_scaled(rewriter, node)) {
    const GraphNode* product = rewriter.made_only_for(node, scaled->x, "mul");
    if (product != nullptr) x = gelu_argument(rewriter, *product, scaled->factor);
  }
  if (x) rewriter.become(node, "gelu", {*x}, {{"approximate", std::string("none")}});
  return x.has_value();
}

bool find_activation(Rewriter& rewriter, GraphNode& node) {
  if (node.outputs.size() != 1 || !is_mapped(rewriter.type(node.outputs[0]).dtype)) return false;
  const std::string_view op = node.def->name;
  if (op == "clip") return find_hard_sigmoid(rewriter, node);
  if (op == "linear" || op == "div") {
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
