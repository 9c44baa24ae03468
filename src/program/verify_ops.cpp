#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "tilemesh/ops/op.hpp"

#include "verify.hpp"

namespace tilemesh {
namespace {

constexpr std::size_t kMaxSteps = 1024;

bool is_known(ScalarFn fn) {
  return fn <= ScalarFn::celu || (fn >= ScalarFn::add && fn <= ScalarFn::prelu);
}

void check_argument(const ProgramOp& op, std::size_t step, std::int16_t argument, bool is_map) {
  const int value = argument;
  if (value == ExpressionStep::kResult && !is_map) {
    return;
  }
  if (value >= 0 && value < ExpressionStep::kOperand && static_cast<std::size_t>(value) < step) {
    return;
  }
  if (value >= ExpressionStep::kOperand) {
    const auto operand = static_cast<std::size_t>(value - ExpressionStep::kOperand);
    if (operand < op.inputs.size() && op.inputs[operand] != ProgramOp::kAbsent) {
      return;
    }
  }
  broken(
      fmt::format("step {} of its epilogue reads {}, which is neither an earlier step nor an "
                  "operand",
                  step, value));
}

void check_epilogue(const ProgramOp& op) {
  const std::vector<ExpressionStep>& steps = op.epilogue.steps;
  if (steps.size() > kMaxSteps) {
    broken(fmt::format("its epilogue has {} steps, the most is {}", steps.size(), kMaxSteps));
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!is_known(steps[i].fn)) {
      broken(fmt::format("step {} of its epilogue has the unknown function {}", i,
                         static_cast<int>(steps[i].fn)));
    }
    for (int k = 0; k < arity(steps[i].fn); ++k) {
      check_argument(op, i, steps[i].arguments[static_cast<std::size_t>(k)], op.op == "map");
    }
  }
}

/// The stated outputs have to be those that the op's own rule gives.
void check_inference(const Program& program, std::size_t index) {
  const OpCall stated = shard_call(program, index);
  OpCall inferred = stated;
  infer_outputs(inferred);
  if (inferred.outputs.size() != stated.outputs.size()) {
    broken(fmt::format("it should have {} outputs, but has {}", inferred.outputs.size(),
                       stated.outputs.size()));
  }
  for (std::size_t i = 0; i < stated.outputs.size(); ++i) {
    const OperandType& want = inferred.outputs[i];
    const OperandType& got = stated.outputs[i];
    if (got.present && (got.dtype != want.dtype || !(got.shape == want.shape))) {
      broken(fmt::format("its output {} is {}{} on each device, but should be {}{}", i,
                         to_string(got.dtype), got.shape.to_string(), to_string(want.dtype),
                         want.shape.to_string()));
    }
  }
}

void check_written(const ProgramCheck& check, std::uint32_t value) {
  const Program& program = check.program;
  const Storage& storage = program.values[value].storage;
  if (storage.kind == Storage::Kind::constant) {
    broken(fmt::format("it writes {}, which is in a constant", describe(program, value)));
  }
  if (storage.kind == Storage::Kind::input && !check.writable_inputs[storage.index]) {
    broken(
        fmt::format("it writes {}, which is in input \"{}\"; only what an output takes over may be "
                    "written, since the caller gives it away",
                    describe(program, value), program.inputs[storage.index].name));
  }
}

/// The ranges of the outputs in order of their place; no two overlap.
std::vector<Footprint> output_ranges(const ProgramCheck& check, const ProgramOp& op) {
  std::vector<Footprint> ranges;
  for (const std::uint32_t output : op.outputs) {
    if (output == ProgramOp::kAbsent) {
      continue;
    }
    check_written(check, output);
    const Footprint range = range_of(check, output);
    if (!range.empty()) {
      ranges.push_back(range);
    }
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].buffer == ranges[i - 1].buffer && ranges[i].begin < ranges[i - 1].end) {
      broken(fmt::format("its outputs {} and {} overlap",
                         describe(check.program, ranges[i - 1].value),
                         describe(check.program, ranges[i].value)));
    }
  }
  return ranges;
}

void check_jump(const Program& program, std::size_t index) {
  const ProgramOp& op = program.ops[index];
  if (op.target <= index || op.target > program.ops.size()) {
    broken(fmt::format("it jumps to op {}; a jump goes forward, at most to the end ({})", op.target,
                       program.ops.size()));
  }
}

bool is_one(const Program& program, std::uint32_t value, DType dtype) {
  const ProgramValue& held = program.values[value];
  return held.spec.dtype == dtype && held.spec.shape.element_count() == 1 &&
         held.spec.is_replicated() && held.storage.kind != Storage::Kind::none;
}

void check_condition(const Program& program, const ProgramOp& op) {
  if (op.inputs.size() != 1 || op.inputs[0] == ProgramOp::kAbsent) {
    broken(fmt::format("it needs one condition, and has {} inputs", op.inputs.size()));
  }
  if (!is_one(program, op.inputs[0], DType::boolean)) {
    broken(fmt::format("its condition is {}; it must be one replicated bool",
                       program.values[op.inputs[0]].spec.to_string()));
  }
}

void check_repeat(const ProgramCheck& check, std::size_t index) {
  const Program& program = check.program;
  const ProgramOp& op = program.ops[index];
  if (op.target > index) {
    broken(fmt::format("it goes back to op {}, which comes after it", op.target));
  }
  if (op.limit < 1) {
    broken(fmt::format("its limit of {} iterations is not positive", op.limit));
  }
  if (op.inputs.size() != 3 || op.inputs[0] == ProgramOp::kAbsent) {
    broken("it wants a counter, a trip count and a condition, of which the counter must be given");
  }
  constexpr DType kWanted[] = {DType::i64, DType::i64, DType::boolean};
  for (std::size_t i = 0; i < 3; ++i) {
    if (op.inputs[i] == ProgramOp::kAbsent || is_one(program, op.inputs[i], kWanted[i])) {
      continue;
    }
    broken(fmt::format("its input {} is {}; it must be one replicated {}", i,
                       program.values[op.inputs[i]].spec.to_string(), to_string(kWanted[i])));
  }
  check_written(check, op.inputs[0]);
}

void check_op(const ProgramCheck& check, std::size_t index) {
  const Program& program = check.program;
  const ProgramOp& op = program.ops[index];
  if (op.kind != ProgramOp::Kind::call && !op.outputs.empty()) {
    broken(fmt::format("it is no call, but has {} outputs", op.outputs.size()));
  }
  switch (op.kind) {
    case ProgramOp::Kind::jump: check_jump(program, index); return;
    case ProgramOp::Kind::jump_if_false:
      check_jump(program, index);
      check_condition(program, op);
      return;
    case ProgramOp::Kind::repeat: check_repeat(check, index); return;
    case ProgramOp::Kind::fail: return;
    case ProgramOp::Kind::call: break;
  }
  check_epilogue(op);
  if (is_reshard(op)) {
    check_reshard(check, index);
    return;
  }
  check_inference(program, index);
  check_placements(program, index);
  if (!is_free_view(check, op)) {
    check_overlaps(check, op);
  }
}

}  // namespace

/// An output may be exactly one of the inputs, in place, and otherwise must not touch them.
void check_overlaps(const ProgramCheck& check, const ProgramOp& op) {
  const std::vector<Footprint> outputs = output_ranges(check, op);
  for (const std::uint32_t id : op.inputs) {
    if (id == ProgramOp::kAbsent) {
      continue;
    }
    const Footprint input = range_of(check, id);
    // The outputs are disjoint, so their ends are in order too: the first that ends behind the
    // input's begin is the only candidate that could begin before it.
    const auto found =
        std::partition_point(outputs.begin(), outputs.end(), [&](const Footprint& output) {
          return output.buffer < input.buffer ||
                 (output.buffer == input.buffer && output.end <= input.begin);
        });
    const bool overlaps = found != outputs.end() && !input.empty() &&
                          found->buffer == input.buffer && found->begin < input.end;
    if (overlaps && (found->begin != input.begin || found->end != input.end)) {
      broken(fmt::format("its output {} partly overlaps its input {}",
                         describe(check.program, found->value), describe(check.program, id)));
    }
  }
}

bool is_free_view(const ProgramCheck& check, const ProgramOp& op) {
  if (!get_op(op.op).is_view || op.inputs.empty() || op.outputs.size() != 1 ||
      op.inputs[0] == ProgramOp::kAbsent || op.outputs[0] == ProgramOp::kAbsent ||
      !op.epilogue.empty()) {
    return false;
  }
  const ProgramValue& from = check.program.values[op.inputs[0]];
  const ProgramValue& to = check.program.values[op.outputs[0]];
  if (!(from.storage == to.storage) || from.spec.space != to.spec.space ||
      from.storage.kind == Storage::Kind::none) {
    return false;
  }
  const bool same_form = from.spec.shape == to.spec.shape && from.spec.layout == to.spec.layout;
  const bool both_rows = from.spec.layout.is_rows() && to.spec.layout.is_rows();
  if (!same_form && !both_rows) {
    broken("it shows the bytes of its input in another layout without moving them");
  }
  return true;
}

void check_ops(const ProgramCheck& check) {
  for (std::size_t i = 0; i < check.program.ops.size(); ++i) {
    try {
      check_op(check, i);
    } catch (const Error& error) {
      throw error.in(describe_op(check.program, i));
    }
  }
}

}  // namespace tilemesh
