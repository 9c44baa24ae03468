#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tilemesh/device/device.hpp"
#include "tilemesh/device/host_memory.hpp"
#include "tilemesh/device/program_exchanges.hpp"
#include "tilemesh/ops/repeat.hpp"

namespace tilemesh::null {

/// What a device and its queues share.
class NullCore;

class NullDevice final : public Device {
 public:
  NullDevice(int index, const DeviceOptions& options);
  ~NullDevice() override;

  const DeviceInfo& info() const override;
  std::byte* map(Space space) override;
  void commit(DeviceAddress address, std::int64_t bytes) override;
  std::shared_ptr<DeviceProgram> prepare(std::span<const DeviceStep> steps) override;
  std::unique_ptr<DeviceQueue> create_queue() override;

 private:
  std::shared_ptr<NullCore> core_;
};

/// Steps by their ops' reference meaning.
class NullProgram final : public DeviceProgram {
 public:
  NullProgram(std::span<const DeviceStep> steps, std::string place,
              const detail::HostMemory& memory);

  std::int64_t scratch_bytes() const override { return 0; }
  std::vector<std::string> implementations() const override;
  const Membership* membership() const override { return exchanges_.membership(); }
  /// None if it has ended; otherwise what to wait for before it is called again to go on.
  std::optional<Event> run(std::span<const DeviceAddress> bases,
                           const std::shared_ptr<Gathering>& gathering);

 private:
  std::optional<Event> run_steps(std::size_t& index, std::span<const DeviceAddress> bases);
  std::size_t run_step(std::size_t index, std::span<std::byte* const> operands);
  std::vector<std::byte*> operands_of(const DeviceStep& step,
                                      std::span<const DeviceAddress> bases) const;

  std::vector<DeviceStep> steps_;
  std::string place_;
  detail::HostMemory memory_;
  detail::ProgramExchanges exchanges_;
  RepeatBudget repeat_budget_;
};

}  // namespace tilemesh::null
