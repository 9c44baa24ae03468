#include "tilemesh/ops/op.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "attribute_form.hpp"
#include "support.hpp"

namespace tilemesh {
namespace {

using ops::has_input;
using ops::own_input_count;

std::string to_string(const OperandType& type) {
  if (!type.present) return "-";
  return fmt::format("{}{}", to_string(type.dtype), type.shape.to_string());
}

bool is_map(const OpCall& call) {
  return call.def->name == "map";
}

void check_input_count(const OpCall& call) {
  const OpDef& def = *call.def;
  const auto minimum = static_cast<std::size_t>(def.min_inputs);
  const bool with_epilogue = !call.epilogue.empty() && !is_map(call);
  if (with_epilogue && !def.takes_epilogue) {
    throw Error(ErrorCode::invalid_argument, "it takes no epilogue: leave the chain to a map");
  }
  // The epilogue's operands start at a fixed place, so the own inputs must be padded.
  const std::size_t least = with_epilogue ? static_cast<std::size_t>(def.max_inputs) : minimum;
  const bool too_many = def.max_inputs >= 0 && !with_epilogue &&
                        call.inputs.size() > static_cast<std::size_t>(def.max_inputs);
  if (call.inputs.size() < least || too_many) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("wants {}{} inputs{}, got {}", least,
                            def.max_inputs < 0 ? " or more"
                            : with_epilogue || def.max_inputs == def.min_inputs
                                ? ""
                                : fmt::format(" to {}", def.max_inputs),
                            with_epilogue ? " before its epilogue's" : "", call.inputs.size()));
  }
  for (std::size_t i = 0; i < minimum; ++i) {
    if (!has_input(call, i)) {
      throw Error(ErrorCode::invalid_argument, fmt::format("input {} must be given", i));
    }
  }
  if (def.max_outputs >= 0 && call.outputs.size() > static_cast<std::size_t>(def.max_outputs)) {
    throw Error(ErrorCode::invalid_argument, fmt::format("gives at most {} outputs, {} are wanted",
                                                         def.max_outputs, call.outputs.size()));
  }
}

void check_argument(const OpCall& call, std::size_t step, std::int16_t argument) {
  if (argument == ExpressionStep::kResult && !is_map(call)) return;
  if (argument >= 0 && argument < ExpressionStep::kOperand &&
      static_cast<std::size_t>(argument) < step) {
    return;
  }
  const std::size_t first = is_map(call) ? 0 : own_input_count(call);
  const auto operand = static_cast<std::size_t>(argument - ExpressionStep::kOperand);
  if (argument >= ExpressionStep::kOperand && operand >= first && has_input(call, operand)) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("step {} of the chain has argument {}, which is neither an earlier step "
                          "nor one of the {} operands",
                          step, argument, call.inputs.size() - first));
}

void check_epilogue(const OpCall& call, const OperandType& output) {
  if (is_map(call) && call.epilogue.empty()) {
    throw Error(ErrorCode::invalid_argument, "wants a chain of at least one step");
  }
  for (std::size_t s = 0; s < call.epilogue.steps.size(); ++s) {
    const ExpressionStep& step = call.epilogue.steps[s];
    if (arity(step.fn) == 0) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("step {} of the chain has the unknown function {}", s,
                              static_cast<int>(step.fn)));
    }
    for (int k = 0; k < arity(step.fn); ++k) {
      check_argument(call, s, step.arguments[static_cast<std::size_t>(k)]);
    }
  }
  if (is_map(call) || call.epilogue.empty()) return;
  if (!is_float(output.dtype)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a chain wants a float result, got {}", to_string(output.dtype)));
  }
  for (std::size_t i = own_input_count(call); i < call.inputs.size(); ++i) {
    const OperandType& operand = call.inputs[i];
    if (!operand.present) continue;
    if (!is_float(operand.dtype) || broadcast(operand.shape, output.shape) != output.shape) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("input {} of the chain wants a float that broadcasts to {}, got {}",
                              i, output.shape.to_string(), to_string(operand)));
    }
  }
}

void take_canonical_form(OpCall& call) {
  ops::AttributeForm form(call);
  if (call.def->canonical != nullptr) call.def->canonical(form);
  call.attributes = form.take();
}

void infer_checked(OpCall& call) {
  check_input_count(call);
  take_canonical_form(call);
  std::vector<OperandType> outputs = call.def->infer(call);
  for (const OperandType& output : outputs) {
    check_element_count(output.shape);
  }
  check_epilogue(call, outputs.front());
  for (std::size_t i = 0; i < std::min(outputs.size(), call.outputs.size()); ++i) {
    outputs[i].present = call.outputs[i].present;
    if (!outputs[i].present && std::cmp_less(i, call.def->required_outputs)) {
      throw Error(ErrorCode::invalid_argument, fmt::format("output {} must be wanted", i));
    }
  }
  call.outputs = std::move(outputs);
}

}  // namespace

void check_element_count(const Shape& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || size > kMostElements || (size > 0 && elements > kMostElements / size)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("shape {} has more than {} elements, the most of a tensor",
                              shape.to_string(), kMostElements));
    }
    elements *= size == 0 ? 1 : size;
  }
}

void canonicalise(OpCall& call) {
  TILEMESH_CHECK(call.def != nullptr, "a call without an op");
  try {
    check_input_count(call);
    take_canonical_form(call);
  } catch (const Error& error) {
    throw error.in(call.def->name);
  }
}

void infer_outputs(OpCall& call) {
  TILEMESH_CHECK(call.def != nullptr, "a call without an op");
  try {
    infer_checked(call);
  } catch (const Error& error) {
    throw error.in(call.def->name);
  }
}

Factors factors_of(const OpCall& call) {
  Factors factors = call.def->factors(call);
  if (call.epilogue.empty() || is_map(call)) return factors;
  const std::vector<int>& out = factors.outputs[0];
  for (std::vector<int>& input : factors.inputs) {
    for (int& factor : input) {
      if (std::ranges::find(out, factor) == out.end()) factor = Factors::kNone;
    }
  }
  const Shape& shape = call.outputs[0].shape;
  for (std::size_t i = factors.inputs.size(); i < call.inputs.size(); ++i) {
    std::vector<int>& input = factors.inputs.emplace_back();
    const Shape& own = call.inputs[i].shape;
    for (int d = 0; call.inputs[i].present && d < own.rank(); ++d) {
      const int to = d + shape.rank() - own.rank();
      input.push_back(own[d] == shape[to] ? out[static_cast<std::size_t>(to)] : Factors::kNone);
    }
  }
  return factors;
}

bool can_cut(const OpCall& call, const Factors& factors, int factor, std::int64_t parts) {
  std::optional<std::int64_t> size;
  bool same = true;
  bool even = true;
  const auto look = [&](const std::vector<std::vector<int>>& operands,
                        const std::vector<OperandType>& types) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      for (std::size_t d = 0; d < operands[i].size(); ++d) {
        if (operands[i][d] != factor) continue;
        const std::int64_t own = types[i].shape[static_cast<int>(d)];
        same = same && size.value_or(own) == own;
        even = even && own % parts == 0;
        size = own;
      }
    }
  };
  look(factors.inputs, call.inputs);
  look(factors.outputs, call.outputs);
  return same || even;
}

Shape broadcast(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Dims sizes;
  for (int d = 0; d < rank; ++d) {
    const int in_a = d - (rank - a.rank());
    const int in_b = d - (rank - b.rank());
    const std::int64_t size_a = in_a < 0 ? 1 : a[in_a];
    const std::int64_t size_b = in_b < 0 ? 1 : b[in_b];
    if (size_a != size_b && size_a != 1 && size_b != 1) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("shapes {} and {} don't broadcast: their sizes must be equal or 1, "
                              "counted from the last dim",
                              a.to_string(), b.to_string()));
    }
    sizes.push_back(size_a == 1 ? size_b : size_a);
  }
  return Shape(sizes);
}

std::string to_string(const OpCall& call) {
  std::string text(call.def == nullptr ? "?" : call.def->name);
  text += "(";
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    text += (i == 0 ? "" : ", ") + to_string(call.inputs[i]);
  }
  text += ") ->";
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    text += (i == 0 ? " " : ", ") + to_string(call.outputs[i]);
  }
  if (!call.epilogue.empty()) text += " then " + to_string(call.epilogue);
  return text;
}

}  // namespace tilemesh
