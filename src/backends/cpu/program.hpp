#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tilemesh/device/device.hpp"
#include "tilemesh/device/host_memory.hpp"
#include "tilemesh/device/program_exchanges.hpp"
#include "tilemesh/ops/kernel.hpp"
#include "tilemesh/ops/repeat.hpp"

#include "backends/cpu/kernel_list.hpp"
#include "backends/cpu/scratch.hpp"

namespace tilemesh::cpu {

/// Kernels with their operands' addresses resolved. Launch after launch, only the addresses of
/// bases that changed are written anew.
class CpuProgram final : public DeviceProgram {
 public:
  /// Makes the kernels on the calling thread, whose OpenMP threads must be the device's.
  CpuProgram(std::span<const DeviceStep> steps, const detail::HostMemory& memory, std::string place,
             const KernelContext& context);

  std::int64_t scratch_bytes() const override { return scratch_.bytes(); }
  std::vector<std::string> implementations() const override;
  const Membership* membership() const override { return exchanges_.membership(); }
  /// Threads that it needs: 1 if all its kernels say so, else the device's.
  int threads() const { return threads_; }

  /// Throws kernel_failed, naming step and device. Allocates nothing beyond its kernels. None if it
  /// has ended; otherwise what to wait for before it is called again to go on: the other members
  /// of its group, for which it has waited for `spin`.
  std::optional<Event> run(std::span<const DeviceAddress> bases,
                           const std::shared_ptr<Gathering>& gathering = {},
                           std::chrono::nanoseconds spin = {});

 private:
  struct Step {
    DeviceStep::Kind kind = DeviceStep::Kind::call;
    Kernel* kernel = nullptr;
    std::size_t operands = 0;  // the first in pointers_
    std::size_t target = 0;
    std::int64_t limit = 0;  // of a loop
  };
  /// An operand that lies `offset` bytes into a base.
  struct Relative {
    std::size_t operand = 0;
    std::int64_t offset = 0;
  };

  void add_step(const DeviceStep& step, const KernelContext& context);
  void add_operand(const StepOperand& operand);
  void bind(std::span<const DeviceAddress> bases);
  void bind(std::size_t base, const DeviceAddress& address);
  std::optional<Event> run_steps(std::size_t& index, std::chrono::nanoseconds spin);
  [[noreturn]] void fail(std::size_t step) const;

  detail::HostMemory memory_;
  std::string place_;
  int threads_ = 1;
  std::vector<Step> steps_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<std::byte*> pointers_;             // operands of all steps
  std::vector<std::vector<Relative>> relative_;  // by base
  std::vector<DeviceAddress> bound_;             // by base, as of the last launch
  Scratch scratch_;
  detail::ProgramExchanges exchanges_;
  RepeatBudget repeat_budget_;
  std::vector<std::string> names_;     // of the steps
  std::vector<std::string> messages_;  // of `fail` steps
};

}  // namespace tilemesh::cpu
