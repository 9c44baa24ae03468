#include <fmt/format.h>

#include "backends/null/device.hpp"

namespace tilemesh::null {

NullProgram::NullProgram(std::span<const DeviceStep> steps, std::string place)
    : steps_(steps.begin(), steps.end()), place_(std::move(place)) {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const bool jumps = steps_[i].kind == DeviceStep::Kind::jump ||
                       steps_[i].kind == DeviceStep::Kind::jump_if_false;
    TILEMESH_CHECK(!jumps || (std::cmp_greater(steps_[i].target, i) &&
                              std::cmp_less_equal(steps_[i].target, steps_.size())),
                   "a step jumps backwards or out of its program");
  }
}

std::vector<std::string> NullProgram::implementations() const {
  std::vector<std::string> names;
  for (const DeviceStep& step : steps_) {
    names.emplace_back(step.kind == DeviceStep::Kind::call ? "reference" : "");
  }
  return names;
}

void NullProgram::run(std::span<const DeviceAddress> bases, const detail::HostMemory& memory) {
  for (std::size_t i = 0; i < steps_.size();) {
    try {
      i = run_step(i, bases, memory);
    } catch (...) {
      const Status status =
          Status::from_exception(std::current_exception(), ErrorCode::kernel_failed);
      throw Error(ErrorCode::kernel_failed,
                  fmt::format("{}, device {}: {}", steps_[i].name, place_, status.error().what()));
    }
  }
}

std::size_t NullProgram::run_step(std::size_t index, std::span<const DeviceAddress> bases,
                                  const detail::HostMemory& memory) {
  const DeviceStep& step = steps_[index];
  std::vector<std::byte*> operands;
  for (const StepOperand& operand : step.operands) {
    std::byte* address = nullptr;
    if (operand.base == StepOperand::kFixed) {
      address = memory.at({operand.space, operand.offset}, 0);
    } else if (operand.base >= 0) {
      TILEMESH_CHECK(std::cmp_less(operand.base, bases.size()),
                     "a launch binds fewer bases than its program has");
      DeviceAddress base = bases[static_cast<std::size_t>(operand.base)];
      base.offset += operand.offset;
      address = memory.at(base, 0);
    }
    operands.push_back(address);
  }
  switch (step.kind) {
    case DeviceStep::Kind::call: {
      const std::size_t inputs = step.call.inputs.size();
      const std::vector<const std::byte*> in(
          operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(inputs));
      run_reference(step.call, in, std::span(operands).subspan(inputs));
      return index + 1;
    }
    case DeviceStep::Kind::jump: return static_cast<std::size_t>(step.target);
    case DeviceStep::Kind::jump_if_false:
      return operands[0][0] == std::byte{0} ? static_cast<std::size_t>(step.target) : index + 1;
    case DeviceStep::Kind::fail: throw Error(ErrorCode::kernel_failed, step.message);
    case DeviceStep::Kind::exchange:
      throw Error(ErrorCode::unsupported, "this device can't take part in collectives");
  }
  return index + 1;
}

}  // namespace tilemesh::null
