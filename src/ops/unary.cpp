#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "attribute_form.hpp"
#include "scalar.hpp"
#include "tables.hpp"

namespace tilemesh::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Where an op's attributes go in a step's alpha and beta.
struct Parameters {
  std::string_view op;
  std::string_view alpha;
  double alpha_default = 0;
  std::string_view beta;
  double beta_default = 0;
};
constexpr Parameters kParameters[] = {
    {"leaky_relu", "alpha", 0.01, "", 0},
    {"elu", "alpha", 1, "", 0},
    {"selu", "alpha", 1.67326319217681884765625, "gamma", 1.05070102214813232421875},
    {"celu", "alpha", 1, "", 0},
    {"hard_sigmoid", "alpha", 0.2, "beta", 0.5},
    {"clip", "min", -kInfinity, "max", kInfinity},
    {"linear", "alpha", 1, "beta", 0},
    {"swish", "alpha", 1, "", 0},
    {"thresholded_relu", "alpha", 1, "", 0},
    {"shrink", "lambd", 0.5, "bias", 0},
};

struct AlphaBeta {
  double alpha = 0;
  double beta = 0;
};
AlphaBeta parameters_of(const OpCall& call) {
  for (const Parameters& row : kParameters) {
    if (row.op != call.def->name) continue;
    return {.alpha = call.attributes.number(row.alpha),
            .beta = row.beta.empty() ? 0 : call.attributes.number(row.beta)};
  }
  return {};
}

void parameter_form(AttributeForm& form) {
  for (const Parameters& row : kParameters) {
    if (row.op != form.call().def->name) continue;
    form.number(row.alpha, row.alpha_default);
    if (!row.beta.empty()) form.number(row.beta, row.beta_default);
  }
}

void gelu_form(AttributeForm& form) {
  form.choice("approximate", {"none", "tanh"});
}

void is_inf_form(AttributeForm& form) {
  form.flag("detect_negative", true);
  form.flag("detect_positive", true);
}

std::vector<OperandType> same(const OpCall& call) {
  return {rows(call.inputs[0].dtype, call.inputs[0].shape)};
}

template <Types types>
std::vector<OperandType> infer_unary(const OpCall& call) {
  require_type(call, 0, types);
  return same(call);
}

std::vector<OperandType> infer_test(const OpCall& call) {
  require_type(call, 0, Types::real);
  return {rows(DType::boolean, call.inputs[0].shape)};
}

ScalarFn function_of(const OpCall& call) {
  const auto fn = static_cast<ScalarFn>(call.def->scalar_fn);
  if (fn == ScalarFn::gelu && call.attributes.text("approximate") == "tanh") {
    return ScalarFn::gelu_tanh;
  }
  return fn;
}

/// Every element of input 0 through `value`, into the dtype of output 0.
template <class T, class Value>
void each(const OpCall& call, Inputs inputs, Outputs outputs, const Value& value) {
  const Loaded<T> x(inputs[0], call.inputs[0]);
  const std::int64_t count = call.inputs[0].shape.element_count();
  auto y = zeros<T>(count);
  for (std::int64_t i = 0; i < count; ++i) {
    y[static_cast<std::size_t>(i)] = value(x[i]);
  }
  store(y, call.outputs[0], outputs[0]);
}

void run_unary(const OpCall& call, Inputs inputs, Outputs outputs) {
  const ScalarFn fn = function_of(call);
  const auto [alpha, beta] = parameters_of(call);
  visit_wide(call.inputs[0].dtype, [&, a = alpha, b = beta](auto tag) {
    using T = typename decltype(tag)::type;
    each<T>(call, inputs, outputs, [&](T x) { return evaluate_as<T>(fn, x, T{}, a, b); });
  });
}

void run_not(const OpCall& call, Inputs inputs, Outputs outputs) {
  each<std::int64_t>(call, inputs, outputs, [](std::int64_t x) { return x == 0 ? 1 : 0; });
}

void run_thresholded_relu(const OpCall& call, Inputs inputs, Outputs outputs) {
  const double alpha = parameters_of(call).alpha;
  each<double>(call, inputs, outputs, [&](double x) { return x > alpha ? x : 0; });
}

void run_shrink(const OpCall& call, Inputs inputs, Outputs outputs) {
  const auto [lambd, bias] = parameters_of(call);
  // Integers go through double too: the attributes are numbers. NaN gives 0, as ONNX's "otherwise".
  each<double>(call, inputs, outputs, [l = lambd, b = bias](double x) {
    return x < -l ? x + b : x > l ? x - b : 0;
  });
}

void run_is_nan(const OpCall& call, Inputs inputs, Outputs outputs) {
  each<double>(call, inputs, outputs, [](double x) { return std::isnan(x) ? 1.0 : 0.0; });
}

void run_is_inf(const OpCall& call, Inputs inputs, Outputs outputs) {
  const bool negative = call.attributes.integer("detect_negative") != 0;
  const bool positive = call.attributes.integer("detect_positive") != 0;
  each<double>(call, inputs, outputs, [=](double x) {
    return (positive && x == kInfinity) || (negative && x == -kInfinity) ? 1.0 : 0.0;
  });
}

template <Types types = Types::real>
constexpr OpDef unary(std::string_view name, ScalarFn fn) {
  return {.name = name,
          .canonical = parameter_form,
          .infer = infer_unary<types>,
          .factors = broadcast_factors,
          .reference = run_unary,
          .scalar_fn = static_cast<int>(fn)};
}

constexpr OpDef sums(OpDef def) {
  def.partial = PartialRule::sums;
  return def;
}

using F = ScalarFn;
constexpr OpDef kOps[] = {
    {.name = "identity",
     .infer = same,
     .factors = broadcast_factors,
     .reference = run_unary,
     .scalar_fn = static_cast<int>(F::identity),
     .is_view = true,
     .partial = PartialRule::moves},
    sums(unary<Types::number>("neg", F::neg)),
    unary<Types::number>("abs", F::abs),
    unary("exp", F::exp),
    unary("log", F::log),
    unary("sqrt", F::sqrt),
    unary("reciprocal", F::reciprocal),
    unary("erf", F::erf),
    unary<Types::number>("relu", F::relu),
    unary("sigmoid", F::sigmoid),
    unary("tanh", F::tanh),
    unary("hard_swish", F::hard_swish),
    unary("softplus", F::softplus),
    unary("softsign", F::softsign),
    unary("sin", F::sin),
    unary("cos", F::cos),
    unary("tan", F::tan),
    unary("asin", F::asin),
    unary("acos", F::acos),
    unary("atan", F::atan),
    unary("sinh", F::sinh),
    unary("cosh", F::cosh),
    unary("asinh", F::asinh),
    unary("acosh", F::acosh),
    unary("atanh", F::atanh),
    unary("floor", F::floor),
    unary("ceil", F::ceil),
    unary("round", F::round),
    unary<Types::number>("sign", F::sign),
    unary("leaky_relu", F::leaky_relu),
    unary("elu", F::elu),
    unary("selu", F::selu),
    unary("celu", F::celu),
    unary("hard_sigmoid", F::hard_sigmoid),
    unary<Types::number>("clip", F::clip),
    unary<Types::number>("linear", F::linear),
    unary("swish", F::swish),
    {.name = "gelu",
     .canonical = gelu_form,
     .infer = infer_unary<Types::real>,
     .factors = broadcast_factors,
     .reference = run_unary,
     .scalar_fn = static_cast<int>(F::gelu)},
    {.name = "thresholded_relu",
     .canonical = parameter_form,
     .infer = infer_unary<Types::real>,
     .factors = broadcast_factors,
     .reference = run_thresholded_relu},
    {.name = "shrink",
     .canonical = parameter_form,
     .infer = infer_unary<Types::number>,
     .factors = broadcast_factors,
     .reference = run_shrink},
    {.name = "is_nan", .infer = infer_test, .factors = broadcast_factors, .reference = run_is_nan},
    {.name = "is_inf",
     .canonical = is_inf_form,
     .infer = infer_test,
     .factors = broadcast_factors,
     .reference = run_is_inf},
    {.name = "not",
     .infer = infer_unary<Types::boolean>,
     .factors = broadcast_factors,
     .reference = run_not},
};

}  // namespace

std::span<const OpDef> unary_ops() {
  return kOps;
}

}  // namespace tilemesh::ops

namespace tilemesh {

std::optional<ExpressionStep> scalar_step(const OpCall& call) {
  if (call.def->scalar_fn < 0) return std::nullopt;
  const auto [alpha, beta] = ops::parameters_of(call);
  ExpressionStep step;
  step.fn = ops::function_of(call);
  step.alpha = static_cast<float>(alpha);
  step.beta = static_cast<float>(beta);
  return step;
}

}  // namespace tilemesh
