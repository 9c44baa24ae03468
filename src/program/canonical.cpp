// Attributes in the form that everything else reads: before any other check of an op.

#include <fmt/format.h>

#include "tilemesh/ops/op.hpp"

#include "verify.hpp"

namespace tilemesh {
namespace {

// Sizes, axes and steps of an honest op are below this; products of two of them fit into 64 bits.
constexpr std::int64_t kMaxInteger = std::int64_t{1} << 40;

void check_magnitudes(const ProgramOp& op) {
  const auto check = [](const std::string& name, std::int64_t value) {
    if (value > kMaxInteger || value < -kMaxInteger) {
      broken(fmt::format("its attribute \"{}\" has the impossible value {}", name, value));
    }
  };
  for (const auto& [name, value] : op.attributes.items()) {
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
      check(name, *number);
    } else if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
      for (const std::int64_t item : *list) {
        check(name, item);
      }
    }
  }
}

void check_operands(const Program& program, const std::vector<std::uint32_t>& operands) {
  for (const std::uint32_t value : operands) {
    if (value != ProgramOp::kAbsent && value >= program.values.size()) {
      broken(fmt::format("it names value {}, but there are {}", value, program.values.size()));
    }
  }
}

}  // namespace

void canonicalise_ops(Program& program) {
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    ProgramOp& op = program.ops[i];
    try {
      check_operands(program, op.inputs);
      check_operands(program, op.outputs);
      if (op.kind != ProgramOp::Kind::call) continue;
      check_magnitudes(op);
      OpCall call = global_call(program, i);
      canonicalise(call);
      op.attributes = std::move(call.attributes);
    } catch (const Error& error) {
      throw error.in(describe_op(program, i));
    }
  }
}

}  // namespace tilemesh
