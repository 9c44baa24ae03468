#include <cmath>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "attribute_form.hpp"
#include "scalar.hpp"
#include "tables.hpp"

namespace tilemesh::ops {
namespace {

Shape joint_shape(const OpCall& call) {
  return broadcast(call.inputs[0].shape, call.inputs[1].shape);
}

template <Types types>
std::vector<OperandType> infer_binary(const OpCall& call) {
  require_type(call, 0, types);
  require_same_type(call, 0, 1);
  return {rows(call.inputs[0].dtype, joint_shape(call))};
}

std::vector<OperandType> infer_pow(const OpCall& call) {
  require_type(call, 0, Types::number);
  require_type(call, 1, Types::number);
  return {rows(call.inputs[0].dtype, joint_shape(call))};
}

std::vector<OperandType> infer_prelu(const OpCall& call) {
  std::vector<OperandType> outputs = infer_binary<Types::number>(call);
  if (outputs[0].shape != call.inputs[0].shape) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the slope {} must broadcast to the input {}",
                            call.inputs[1].shape.to_string(), call.inputs[0].shape.to_string()));
  }
  return outputs;
}

void mod_form(AttributeForm& form) {
  form.flag("fmod", false);
}

std::vector<OperandType> infer_mod(const OpCall& call) {
  std::vector<OperandType> outputs = infer_binary<Types::number>(call);
  if (is_float(outputs[0].dtype) && call.attributes.integer("fmod") == 0) {
    throw Error(ErrorCode::invalid_argument, fmt::format("attribute \"fmod\" wants 1 for {}, got 0",
                                                         to_string(outputs[0].dtype)));
  }
  return outputs;
}

void bit_shift_form(AttributeForm& form) {
  form.choice("direction", {"LEFT", "RIGHT"}, true);
}

/// All pairs of broadcast elements through `value`.
template <class T, class Value>
void each_pair(const OpCall& call, Inputs inputs, Outputs outputs, const Value& value) {
  const Shape& shape = call.outputs[0].shape;
  const Loaded<T> a(inputs[0], call.inputs[0], shape);
  const Loaded<T> b(inputs[1], call.inputs[1], shape);
  auto y = zeros<T>(shape.element_count());
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    y[static_cast<std::size_t>(i)] = value(a[i], b[i]);
  }
  store(y, call.outputs[0], outputs[0]);
}

void run_binary(const OpCall& call, Inputs inputs, Outputs outputs) {
  const auto fn = static_cast<ScalarFn>(call.def->scalar_fn);
  visit_wide(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    each_pair<T>(call, inputs, outputs, [&](T a, T b) { return evaluate_as<T>(fn, a, b, 0, 0); });
  });
}

void run_pow(const OpCall& call, Inputs inputs, Outputs outputs) {
  if (is_float(call.inputs[0].dtype) || !is_float(call.inputs[1].dtype)) {
    run_binary(call, inputs, outputs);
    return;
  }
  // An integer to a float power: the power is a float, and is truncated to the base's dtype.
  each_pair<double>(call, inputs, outputs, [](double a, double b) { return std::pow(a, b); });
}

template <class T>
T remainder_of(T a, T b, bool as_c) {
  if constexpr (std::is_same_v<T, double>) {
    return std::fmod(a, b);
  } else {
    if (b == 0) throw Error(ErrorCode::kernel_failed, "integer remainder of a division by zero");
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;  // the lowest number's quotient would overflow
      const T rest = a % b;
      return !as_c && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    } else {
      return a % b;
    }
  }
}

void run_mod(const OpCall& call, Inputs inputs, Outputs outputs) {
  const bool as_c = call.attributes.integer("fmod") != 0;
  visit_wide(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    each_pair<T>(call, inputs, outputs, [&](T a, T b) { return remainder_of<T>(a, b, as_c); });
  });
}

void run_bit_shift(const OpCall& call, Inputs inputs, Outputs outputs) {
  const bool left = call.attributes.text("direction") == "LEFT";
  const auto bits = static_cast<std::uint64_t>(8 * size_of(call.inputs[0].dtype));
  each_pair<std::uint64_t>(call, inputs, outputs, [=](std::uint64_t a, std::uint64_t b) {
    return b >= bits ? 0 : left ? a << b : a >> b;
  });
}

constexpr OpDef binary(std::string_view name, ScalarFn fn) {
  return {.name = name,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_binary<Types::number>,
          .factors = broadcast_factors,
          .reference = run_binary,
          .scalar_fn = static_cast<int>(fn)};
}

constexpr OpDef with(OpDef def, PartialRule partial) {
  def.partial = partial;
  return def;
}

constexpr OpDef with(OpDef def, decltype(OpDef::infer) infer, decltype(OpDef::reference) reference,
                     int scalar_fn) {
  def.infer = infer;
  def.reference = reference;
  def.scalar_fn = scalar_fn;
  return def;
}

constexpr OpDef with(decltype(OpDef::canonical) canonical, OpDef def) {
  def.canonical = canonical;
  return def;
}

using F = ScalarFn;
constexpr OpDef kOps[] = {
    with(binary("add", F::add), PartialRule::sums),
    with(binary("sub", F::sub), PartialRule::sums),
    with(binary("mul", F::mul), PartialRule::scales),
    binary("div", F::div),
    binary("min", F::min),
    binary("max", F::max),
    with(binary("pow", F::pow), infer_pow, run_pow, static_cast<int>(F::pow)),
    with(binary("prelu", F::prelu), infer_prelu, run_binary, static_cast<int>(F::prelu)),
    with(mod_form, with(binary("mod", F::div), infer_mod, run_mod, -1)),
    with(bit_shift_form,
         with(binary("bit_shift", F::div), infer_binary<Types::integer>, run_bit_shift, -1)),
};

}  // namespace

std::span<const OpDef> binary_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
