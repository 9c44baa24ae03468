#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tilemesh/device/device.hpp"
#include "tilemesh/device/host_memory.hpp"

namespace tilemesh::null {

/// What a device and its queues share.
struct DeviceState;

class NullDevice final : public Device {
 public:
  NullDevice(int index, const DeviceOptions& options);

  const DeviceInfo& info() const override;
  std::byte* map(Space space) override;
  void commit(DeviceAddress address, std::int64_t bytes) override;
  std::shared_ptr<DeviceProgram> prepare(std::span<const DeviceStep> steps) override;
  std::unique_ptr<DeviceQueue> create_queue() override;

 private:
  std::shared_ptr<DeviceState> state_;
};

/// Steps by their ops' reference meaning.
class NullProgram final : public DeviceProgram {
 public:
  NullProgram(std::span<const DeviceStep> steps, std::string place);

  std::int64_t scratch_bytes() const override { return 0; }
  std::vector<std::string> implementations() const override;
  void run(std::span<const DeviceAddress> bases, const detail::HostMemory& memory);

 private:
  std::size_t run_step(std::size_t index, std::span<const DeviceAddress> bases,
                       const detail::HostMemory& memory);

  std::vector<DeviceStep> steps_;
  std::string place_;
};

}  // namespace tilemesh::null
