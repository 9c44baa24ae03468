#include <fmt/format.h>

#include "backends/null/device.hpp"

namespace tilemesh::null {

NullProgram::NullProgram(std::span<const DeviceStep> steps, std::string place,
                         const detail::HostMemory& memory)
    : steps_(steps.begin(), steps.end()),
      place_(std::move(place)),
      memory_(memory),
      exchanges_(steps, memory) {
  check_jumps(steps_);
}

std::vector<std::string> NullProgram::implementations() const {
  std::vector<std::string> names;
  for (const DeviceStep& step : steps_) {
    names.emplace_back(step.kind == DeviceStep::Kind::call ? "reference" : "");
  }
  return names;
}

std::optional<Event> NullProgram::run(std::span<const DeviceAddress> bases,
                                      const std::shared_ptr<Gathering>& gathering) {
  std::size_t index = exchanges_.enter(gathering);
  if (index == 0) {
    repeat_budget_.refill();
  }
  try {
    std::optional<Event> awaited = run_steps(index, bases);
    if (!awaited) {
      exchanges_.end(true);
    }
    return awaited;
  } catch (...) {
    exchanges_.end(false);
    const Status status =
        Status::from_exception(std::current_exception(), ErrorCode::kernel_failed);
    throw Error(ErrorCode::kernel_failed, fmt::format("{}, device {}: {}", steps_[index].name,
                                                      place_, status.error().what()));
  }
}

std::optional<Event> NullProgram::run_steps(std::size_t& index,
                                            std::span<const DeviceAddress> bases) {
  while (index < steps_.size()) {
    const std::vector<std::byte*> operands = operands_of(steps_[index], bases);
    if (steps_[index].kind != DeviceStep::Kind::exchange) {
      index = run_step(index, operands);
    } else if (exchanges_.run(index, operands[0], operands[1], {})) {
      ++index;
    } else {
      return exchanges_.set_aside(index);
    }
  }
  return std::nullopt;
}

std::vector<std::byte*> NullProgram::operands_of(const DeviceStep& step,
                                                 std::span<const DeviceAddress> bases) const {
  std::vector<std::byte*> operands;
  for (const StepOperand& operand : step.operands) {
    std::byte* address = nullptr;
    if (operand.base == StepOperand::kFixed) {
      address = memory_.at({operand.space, operand.offset}, 0);
    } else if (operand.base >= 0) {
      TILEMESH_CHECK(std::cmp_less(operand.base, bases.size()),
                     "a launch binds fewer bases than its program has");
      DeviceAddress base = bases[static_cast<std::size_t>(operand.base)];
      base.offset += operand.offset;
      address = memory_.at(base, 0);
    }
    operands.push_back(address);
  }
  return operands;
}

std::size_t NullProgram::run_step(std::size_t index, std::span<std::byte* const> operands) {
  const DeviceStep& step = steps_[index];
  switch (step.kind) {
    case DeviceStep::Kind::call: {
      const std::size_t inputs = step.call.inputs.size();
      const std::vector<const std::byte*> in(
          operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(inputs));
      run_reference(step.call, in, operands.subspan(inputs));
      return index + 1;
    }
    case DeviceStep::Kind::jump: return static_cast<std::size_t>(step.target);
    case DeviceStep::Kind::jump_if_false:
      return operands[0][0] == std::byte{0} ? static_cast<std::size_t>(step.target) : index + 1;
    case DeviceStep::Kind::repeat:
      repeat_budget_.spend();
      return repeats(operands.data(), step.limit) ? static_cast<std::size_t>(step.target)
                                                  : index + 1;
    case DeviceStep::Kind::fail: throw Error(ErrorCode::kernel_failed, step.message);
    case DeviceStep::Kind::exchange: break;
  }
  return index + 1;
}

}  // namespace tilemesh::null
