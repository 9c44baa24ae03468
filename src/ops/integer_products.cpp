#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "attribute_form.hpp"
#include "elements.hpp"
#include "tables.hpp"

/// Products of quantized operands: those of their differences from their zero points, exact in i32
/// (sums wrap). Zero points broadcast to their operand, so that padding is of zero points.
namespace tilemesh::ops {
namespace {

constexpr std::size_t kZeroPoints = 2;  // inputs 2 and 3 belong to inputs 0 and 1

/// The same product of i32 operands, which are differences.
OpCall of_differences(const OpCall& call, std::string_view op) {
  OpCall wide;
  wide.def = &get_op(op);
  wide.attributes = call.attributes;
  for (std::size_t i = 0; i < kZeroPoints; ++i) {
    wide.inputs.push_back(rows(DType::i32, call.inputs[i].shape));
  }
  wide.outputs = call.outputs;
  return wide;
}

std::vector<OperandType> infer_product(const OpCall& call, std::string_view op) {
  for (std::size_t i = 0; i < kZeroPoints; ++i) {
    const OperandType& operand = call.inputs[i];
    if (operand.dtype != DType::u8 && operand.dtype != DType::i8) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("input {} wants u8 or i8, got {}", i, to_string(operand.dtype)));
    }
    if (!has_input(call, kZeroPoints + i)) continue;
    require_same_type(call, i, kZeroPoints + i);
    require_broadcast(call, kZeroPoints + i, operand.shape);
  }
  const OpCall wide = of_differences(call, op);
  return wide.def->infer(wide);
}

/// The rule of the product; a zero point goes along with the dims of its operand that it has.
Factors product_factors(const OpCall& call, std::string_view op) {
  const OpCall wide = of_differences(call, op);
  Factors factors = wide.def->factors(wide);
  factors.inputs.resize(kZeroPoints);
  // Zeros beyond a shard's extent aren't neutral in a sum of differences.
  for (std::vector<int>& dims : factors.inputs) {
    for (int& factor : dims) {
      if (std::ranges::find(factors.outputs[0], factor) == factors.outputs[0].end()) {
        factor = Factors::kNone;
      }
    }
  }
  for (std::size_t i = kZeroPoints; i < own_input_count(call); ++i) {
    const Shape& operand = call.inputs[i - kZeroPoints].shape;
    const Shape& own = call.inputs[i].shape;
    std::vector<int>& dims = factors.inputs.emplace_back();
    for (int d = 0; call.inputs[i].present && d < own.rank(); ++d) {
      const int dim = operand.rank() - own.rank() + d;
      const int factor = factors.inputs[i - kZeroPoints][static_cast<std::size_t>(dim)];
      dims.push_back(own[d] == operand[dim] ? factor : Factors::kNone);
    }
  }
  return factors;
}

std::vector<std::int32_t> differences(const OpCall& call, Inputs inputs, std::size_t operand) {
  const Loaded<std::int32_t> x(inputs[operand], call.inputs[operand]);
  const std::int64_t count = call.inputs[operand].shape.element_count();
  std::vector<std::int32_t> result(x.data(), x.data() + count);
  const std::size_t zero_point = kZeroPoints + operand;
  if (!has_input(call, zero_point)) return result;
  const Loaded<std::int32_t> zero(inputs[zero_point], call.inputs[zero_point],
                                  call.inputs[operand].shape);
  for (std::int64_t i = 0; i < count; ++i) {
    result[static_cast<std::size_t>(i)] -= zero[i];
  }
  return result;
}

void run_product(const OpCall& call, std::string_view op, Inputs inputs, Outputs outputs) {
  const std::vector<std::int32_t> a = differences(call, inputs, 0);
  const std::vector<std::int32_t> b = differences(call, inputs, 1);
  const OpCall wide = of_differences(call, op);
  const std::array operands = {reinterpret_cast<const std::byte*>(a.data()),
                               reinterpret_cast<const std::byte*>(b.data())};
  wide.def->reference(wide, operands, outputs);
}

constexpr OpDef kOps[] = {
    {.name = "conv_integer",
     .min_inputs = 2,
     .max_inputs = 4,
     .canonical = [](AttributeForm& form) { get_op("conv").canonical(form); },
     .infer = [](const OpCall& call) { return infer_product(call, "conv"); },
     .factors = [](const OpCall& call) { return product_factors(call, "conv"); },
     .reference =
         [](const OpCall& call, Inputs inputs, Outputs outputs) {
           run_product(call, "conv", inputs, outputs);
         }},
    {.name = "matmul_integer",
     .min_inputs = 2,
     .max_inputs = 4,
     .canonical = [](AttributeForm& form) { get_op("matmul").canonical(form); },
     .infer = [](const OpCall& call) { return infer_product(call, "matmul"); },
     .factors = [](const OpCall& call) { return product_factors(call, "matmul"); },
     .reference =
         [](const OpCall& call, Inputs inputs, Outputs outputs) {
           run_product(call, "matmul", inputs, outputs);
         }},
};

}  // namespace

std::span<const OpDef> integer_product_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
