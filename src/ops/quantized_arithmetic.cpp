#include <cmath>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "attribute_form.hpp"
#include "elements.hpp"
#include "quantized.hpp"
#include "tables.hpp"

/// Sums and products of quantized operands as quantized results, rounded once. Where scales are
/// round numbers, exact halves are common, so the order of the arithmetic is part of the meaning;
/// it is that of onnxruntime.
namespace tilemesh::ops {
namespace {

/// The dtype of the result: by default that of the operands.
void result_form(AttributeForm& form) {
  form.dtype("dtype", form.call().inputs[0].dtype);
}

std::vector<OperandType> infer_pair(const OpCall& call, std::size_t first_real,
                                    std::size_t first_zero_point) {
  const auto dtype = static_cast<DType>(call.attributes.integer("dtype"));
  require_quantized(dtype, "attribute \"dtype\"");
  require_quantized(call.inputs[0].dtype, "input 0");
  require_same_type(call, 0, 1);
  const Shape shape = broadcast(call.inputs[0].shape, call.inputs[1].shape);
  for (std::size_t i = 2; i < own_input_count(call); ++i) {
    if (!has_input(call, i)) continue;
    require_broadcast(call, i, shape);
    if (i >= first_zero_point) require_same_type(call, 0, i);
    if (i >= first_real && i < first_zero_point && call.inputs[i].dtype != DType::f32) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("input {} wants f32, got {}", i, to_string(call.inputs[i].dtype)));
    }
  }
  return {rows(dtype, shape)};
}

std::vector<OperandType> infer_add(const OpCall& call) {
  return infer_pair(call, 2, 5);
}

std::vector<OperandType> infer_mul(const OpCall& call) {
  return infer_pair(call, 2, 4);
}

/// An operand's elements as f32, broadcast to the result; zeros where it isn't given.
std::vector<float> reals(const OpCall& call, Inputs inputs, std::size_t input) {
  const Shape& shape = call.outputs[0].shape;
  if (!has_input(call, input)) return zeros<float>(shape.element_count());
  const Loaded<float> loaded(inputs[input], call.inputs[input], shape);
  return {loaded.data(), loaded.data() + shape.element_count()};
}

template <class ValueAt>
void fill_rounded(const OpCall& call, Outputs outputs, const ValueAt& value) {
  const OperandType& type = call.outputs[0];
  auto result = zeros<std::int64_t>(type.shape.element_count());
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = quantized(value(i), 0, type.dtype);
  }
  store(result, type, outputs[0]);
}

void run_add(const OpCall& call, Inputs inputs, Outputs outputs) {
  const std::vector<float> a = reals(call, inputs, 0);
  const std::vector<float> b = reals(call, inputs, 1);
  const std::vector<float> a_scale = reals(call, inputs, 2);
  const std::vector<float> b_scale = reals(call, inputs, 3);
  const std::vector<float> rest = reals(call, inputs, 4);
  fill_rounded(call, outputs, [&](std::size_t i) {
    return std::fma(a[i], a_scale[i], std::fma(b[i], b_scale[i], rest[i]));
  });
}

void run_mul(const OpCall& call, Inputs inputs, Outputs outputs) {
  const std::vector<float> a = reals(call, inputs, 0);
  const std::vector<float> b = reals(call, inputs, 1);
  const std::vector<float> scale = reals(call, inputs, 2);
  const std::vector<float> rest = reals(call, inputs, 3);
  const std::vector<float> a_zero = reals(call, inputs, 4);
  const std::vector<float> b_zero = reals(call, inputs, 5);
  fill_rounded(call, outputs, [&](std::size_t i) {
    const float product = (a[i] - a_zero[i]) * (b[i] - b_zero[i]);
    const float scaled = product * scale[i];
    return scaled + rest[i];
  });
}

constexpr OpDef kOps[] = {
    // (a, b, a's scale, b's scale, rest): saturate(round(a * scale + (b * scale + rest))) in f32,
    // each product and its sum rounded as one.
    {.name = "quantized_add",
     .min_inputs = 5,
     .max_inputs = 5,
     .canonical = result_form,
     .infer = infer_add,
     .factors = broadcast_factors,
     .reference = run_add},
    // (a, b, scale, rest, a's zero point, b's zero point):
    // saturate(round((a - zero point) * (b - zero point) * scale + rest)) in f32, each step
    // rounded.
    {.name = "quantized_mul",
     .min_inputs = 4,
     .max_inputs = 6,
     .canonical = result_form,
     .infer = infer_mul,
     .factors = broadcast_factors,
     .reference = run_mul},
};

}  // namespace

std::span<const OpDef> quantized_arithmetic_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
