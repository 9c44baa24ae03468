#include "backends/cpu/program.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

#include "backends/cpu/kernel_list.hpp"
#include "backends/cpu/kernels/hwy/exchange_reduction.hpp"

namespace tilemesh::cpu {

namespace {

/// No address that a launch could bind.
constexpr DeviceAddress kUnbound = {Space::host, -1};

}  // namespace

CpuProgram::CpuProgram(std::span<const DeviceStep> steps, const detail::HostMemory& memory,
                       std::string place, const KernelContext& context)
    : memory_(memory),
      place_(std::move(place)),
      exchanges_(steps, memory, highway::exchange_reduction) {
  check_jumps(steps);
  for (const DeviceStep& step : steps) {
    add_step(step, context);
  }
  bound_.assign(relative_.size(), kUnbound);
  std::int64_t scratch = 0;
  for (const auto& kernel : kernels_) {
    scratch = std::max(scratch, kernel->scratch_bytes());
    threads_ = std::max(threads_, kernel->threads() == 0 ? context.threads : kernel->threads());
  }
  scratch_.resize(scratch);
}

void CpuProgram::add_step(const DeviceStep& step, const KernelContext& context) {
  using Kind = DeviceStep::Kind;
  Step added{.kind = step.kind,
             .kernel = nullptr,
             .operands = pointers_.size(),
             .target = static_cast<std::size_t>(step.target),
             .limit = step.limit};
  for (const StepOperand& operand : step.operands) {
    add_operand(operand);
  }
  if (step.kind == Kind::call) {
    TILEMESH_CHECK(step.operands.size() == step.call.inputs.size() + step.call.outputs.size(),
                   "a step has another number of operands than its call");
    try {
      kernels_.push_back(make_kernel(step.call, context));
    } catch (const Error& error) {
      throw error.in(step.name);
    }
    added.kernel = kernels_.back().get();
  }
  steps_.push_back(added);
  names_.push_back(step.name);
  messages_.push_back(step.message);
}

void CpuProgram::add_operand(const StepOperand& operand) {
  std::byte* address = nullptr;
  if (operand.base == StepOperand::kFixed) {
    address = memory_.at({operand.space, operand.offset}, 0);
  } else if (operand.base >= 0) {
    const auto base = static_cast<std::size_t>(operand.base);
    relative_.resize(std::max(relative_.size(), base + 1));
    relative_[base].push_back({pointers_.size(), operand.offset});
  }
  pointers_.push_back(address);
}

std::vector<std::string> CpuProgram::implementations() const {
  std::vector<std::string> names;
  for (const Step& step : steps_) {
    names.emplace_back(step.kernel == nullptr ? std::string_view() : step.kernel->name());
  }
  return names;
}

void CpuProgram::bind(std::span<const DeviceAddress> bases) {
  TILEMESH_CHECK(bases.size() >= bound_.size(), "a launch binds fewer bases than its program has");
  for (std::size_t i = 0; i < bound_.size(); ++i) {
    if (!(bases[i] == bound_[i])) {
      bind(i, bases[i]);
    }
  }
}

void CpuProgram::bind(std::size_t base, const DeviceAddress& address) {
  bound_[base] = kUnbound;
  for (const Relative& relative : relative_[base]) {
    pointers_[relative.operand] =
        memory_.at({address.space, checked_add(address.offset, relative.offset)}, 0);
  }
  bound_[base] = address;
}

std::optional<Event> CpuProgram::run(std::span<const DeviceAddress> bases,
                                     const std::shared_ptr<Gathering>& gathering,
                                     std::chrono::nanoseconds spin) {
  std::size_t index = exchanges_.enter(gathering);
  if (index == 0) {
    repeat_budget_.refill();
  }
  try {
    bind(bases);  // changes nothing for one that goes on
  } catch (...) {
    exchanges_.end(false);
    throw;
  }
  try {
    std::optional<Event> awaited = run_steps(index, spin);
    if (!awaited) {
      exchanges_.end(true);
    }
    return awaited;
  } catch (...) {
    exchanges_.end(false);
    fail(index);
  }
}

std::optional<Event> CpuProgram::run_steps(std::size_t& i, std::chrono::nanoseconds spin) {
  while (i < steps_.size()) {
    const Step& step = steps_[i];
    std::byte* const* const operands = pointers_.data() + step.operands;
    switch (step.kind) {
      case DeviceStep::Kind::call:
        step.kernel->run(operands, scratch_.data());
        ++i;
        break;
      case DeviceStep::Kind::jump: i = step.target; break;
      case DeviceStep::Kind::jump_if_false:
        i = *operands[0] == std::byte{0} ? step.target : i + 1;
        break;
      case DeviceStep::Kind::repeat:
        repeat_budget_.spend();
        i = repeats(operands, step.limit) ? step.target : i + 1;
        break;
      case DeviceStep::Kind::fail: throw Error(ErrorCode::kernel_failed, messages_[i]);
      case DeviceStep::Kind::exchange:
        if (!exchanges_.run(i, operands[0], operands[1], spin)) {
          return exchanges_.set_aside(i);
        }
        ++i;
        break;
    }
  }
  return std::nullopt;
}

void CpuProgram::fail(std::size_t step) const {
  const Status status = Status::from_exception(std::current_exception(), ErrorCode::kernel_failed);
  throw Error(ErrorCode::kernel_failed,
              fmt::format("{}, device {}: {}", names_[step], place_, status.error().what()));
}

}  // namespace tilemesh::cpu
