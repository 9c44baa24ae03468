#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "elementwise.hpp"
#include "offers.hpp"

namespace tilemesh::cpu::highway {
namespace {

bool is_small_float(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

std::string kernel_name(const OpCall& call) {
  return fmt::format("highway:{}", call.def->name);
}

/// Collects the instructions of one call; f16 and bf16 are widened to f32 on the way in.
class Builder {
 public:
  explicit Builder(const OpCall& call) : call_(call) {
    program_.output = call.outputs[0];
    program_.output_place = call.inputs.size();
  }

  /// Input `index` as a value of f32, or of its own dtype if it isn't a small float.
  ValueRef input(std::size_t index) { return operand(call_.inputs[index], index); }
  /// The output as it is before the program runs.
  ValueRef result() { return operand(call_.outputs[0], call_.inputs.size()); }

  ValueRef add(Instruction instruction) {
    instruction.out = {ValueRef::Kind::intermediate, intermediates_++};
    program_.instructions.push_back(instruction);
    return instruction.out;
  }

  /// The kernel, whose output is the last value: f32, to be rounded, or of the output's dtype.
  KernelOffer finish(int device_threads) {
    const ValueRef output{ValueRef::Kind::output, 0};
    if (is_small_float(program_.output.dtype)) {
      const ValueRef last = program_.instructions.back().out;
      add({.fn = cast_chunk(DType::f32, program_.output.dtype),
           .in = {last},
           .zero_to_zero = true});
    }
    program_.instructions.back().out = output;
    if (program_.operands.size() > kMaxOperands) {
      return {nullptr,
              fmt::format("{} operands, more than {}", program_.operands.size(), kMaxOperands)};
    }
    return {make_elementwise(std::move(program_), kernel_name(call_), device_threads), ""};
  }

  ElementwiseProgram& program() { return program_; }

 private:
  struct Operand {
    std::size_t place = 0;
    ValueRef value;
  };

  ValueRef operand(const OperandType& type, std::size_t place) {
    const auto known = std::ranges::find(operands_, place, &Operand::place);
    if (known != operands_.end()) return known->value;
    ValueRef value{ValueRef::Kind::operand, static_cast<int>(program_.operands.size())};
    program_.operands.push_back(type);
    program_.places.push_back(place);
    if (is_small_float(type.dtype)) {
      value = add({.fn = cast_chunk(type.dtype, DType::f32), .in = {value}, .zero_to_zero = true});
    }
    operands_.push_back({place, value});
    return value;
  }

  const OpCall& call_;
  ElementwiseProgram program_;
  std::vector<Operand> operands_;
  int intermediates_ = 0;
};

Instruction float_instruction(const ExpressionStep& step) {
  const auto alpha = double{step.alpha};
  const auto beta = double{step.beta};
  return {.fn = float_chunk(step.fn),
          .inputs = arity(step.fn),
          .alpha = step.alpha,
          .beta = step.beta,
          .cost = chunk_cost(step.fn),
          .zero_to_zero = evaluate(step.fn, 0, 0, alpha, beta) == 0};
}

bool computes_in_f32(DType dtype) {
  return dtype == DType::f32 || is_small_float(dtype);
}

/// The value of an op that reads all its inputs with one function of their own types.
KernelOffer one_instruction(const OpCall& call, const KernelContext& context,
                            Instruction instruction, bool may_throw) {
  Builder builder(call);
  instruction.inputs = static_cast<int>(call.inputs.size());
  for (std::size_t k = 0; k < call.inputs.size(); ++k) {
    instruction.in[k] = builder.input(k);
  }
  builder.add(instruction);
  builder.program().may_throw = may_throw;
  return builder.finish(context.threads);
}

/// The call's chain of steps.
void add_chain(const OpCall& call, Builder& builder) {
  std::vector<ValueRef> values;
  for (const ExpressionStep& step : call.epilogue.steps) {
    Instruction instruction = float_instruction(step);
    for (int k = 0; k < instruction.inputs; ++k) {
      const auto at = static_cast<std::size_t>(k);
      const int argument = step.arguments[at];
      if (argument == ExpressionStep::kResult) {
        instruction.in[at] = builder.result();
      } else if (argument >= ExpressionStep::kOperand) {
        const int operand = argument - ExpressionStep::kOperand;
        instruction.in[at] = builder.input(static_cast<std::size_t>(operand));
      } else {
        instruction.in[at] = values.at(static_cast<std::size_t>(argument));
      }
    }
    values.push_back(builder.add(instruction));
  }
}

}  // namespace

std::string why_not(const OpCall& call) {
  const auto is_opaque = [](const OperandType& type) {
    return type.present && type.layout.is_opaque();
  };
  if (std::ranges::any_of(call.inputs, is_opaque) || std::ranges::any_of(call.outputs, is_opaque)) {
    return "an operand in an opaque layout";
  }
  const bool with_epilogue = !call.epilogue.empty() && call.def->name != "map";
  return with_epilogue ? "an epilogue" : "";
}

KernelOffer offer_scalar(const OpCall& call, const KernelContext& context) {
  if (std::string reason = why_not(call); !reason.empty()) return {nullptr, reason};
  const std::optional<ExpressionStep> step = scalar_step(call);
  if (!step) return {nullptr, "no scalar function"};
  const DType dtype = call.outputs[0].dtype;
  if (is_storage(dtype)) return {nullptr, "a storage format"};
  for (const OperandType& input : call.inputs) {
    if (input.dtype != dtype) return {nullptr, "operands of several dtypes"};
  }
  if (computes_in_f32(dtype)) {
    return one_instruction(call, context, float_instruction(*step), false);
  }
  const ChunkFn fn =
      dtype == DType::boolean ? cast_chunk(dtype, dtype) : typed_chunk(step->fn, dtype);
  const bool supported =
      fn != nullptr && (dtype != DType::boolean || step->fn == ScalarFn::identity);
  if (!supported) return {nullptr, fmt::format("no such function of {}", to_string(dtype))};
  const bool divides = step->fn == ScalarFn::div;
  return one_instruction(call, context, {.fn = fn, .cost = 2, .zero_to_zero = !divides},
                         divides && is_integer(dtype));
}

KernelOffer offer_map(const OpCall& call, const KernelContext& context) {
  if (std::string reason = why_not(call); !reason.empty()) return {nullptr, reason};
  if (!computes_in_f32(call.outputs[0].dtype))
    return {nullptr, "a dtype other than f32, f16, bf16"};
  Builder builder(call);
  add_chain(call, builder);
  return builder.finish(context.threads);
}

KernelOffer offer_epilogue(const OpCall& call, const KernelContext& context) {
  if (!computes_in_f32(call.outputs[0].dtype))
    return {nullptr, "a dtype other than f32, f16, bf16"};
  Builder builder(call);
  add_chain(call, builder);
  return builder.finish(context.threads);
}

KernelOffer offer_test(const OpCall& call, const KernelContext& context) {
  if (std::string reason = why_not(call); !reason.empty()) return {nullptr, reason};
  const DType dtype = call.inputs[0].dtype;
  const DType computed = is_small_float(dtype) ? DType::f32 : dtype;
  const ChunkFn fn = test_chunk(call.def->name, computed);
  if (fn == nullptr) return {nullptr, fmt::format("no such test of {}", to_string(dtype))};
  return one_instruction(call, context, {.fn = fn}, false);
}

KernelOffer offer_where(const OpCall& call, const KernelContext& context) {
  if (std::string reason = why_not(call); !reason.empty()) return {nullptr, reason};
  const DType dtype = call.outputs[0].dtype;
  if (is_small_float(dtype)) return {nullptr, "values of f16 or bf16"};
  return one_instruction(
      call, context, {.fn = select_chunk(size_of(dtype)), .cost = 2, .zero_to_zero = true}, false);
}

KernelOffer offer_cast(const OpCall& call, const KernelContext& context) {
  if (std::string reason = why_not(call); !reason.empty()) return {nullptr, reason};
  const DType from = call.inputs[0].dtype;
  const DType to = call.outputs[0].dtype;
  if (is_storage(from) || is_storage(to)) return {nullptr, "a storage format"};
  ElementwiseProgram program{.operands = {call.inputs[0]},
                             .places = {0},
                             .output = call.outputs[0],
                             .output_place = 1,
                             .instructions = {{.fn = cast_chunk(from, to),
                                               .in = {ValueRef{ValueRef::Kind::operand, 0}},
                                               .out = {ValueRef::Kind::output, 0},
                                               .cost = 2,
                                               .zero_to_zero = true}}};
  return {make_elementwise(std::move(program), kernel_name(call), context.threads), ""};
}

}  // namespace tilemesh::cpu::highway
