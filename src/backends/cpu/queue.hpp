#pragma once

#include <memory>

#include "tilemesh/device/device.hpp"

#include "backends/cpu/device.hpp"

namespace tilemesh::cpu {

/// A lane of the device's strand.
class CpuQueue final : public DeviceQueue {
 public:
  explicit CpuQueue(std::shared_ptr<DeviceCore> core)
      : core_(std::move(core)), lane_(core_->make_lane()) {}

  void enqueue(Command command) override { core_->enqueue(lane_, std::move(command)); }
  bool idle() const override { return lane_->idle(); }
  bool try_run_inline(DeviceProgram& program, std::span<const DeviceAddress> bases) override;
  bool help() override { return core_->welcomes_help() && core_->help(); }

 private:
  bool hand_over(DeviceProgram& program, std::span<const DeviceAddress> bases);

  std::shared_ptr<DeviceCore> core_;
  std::shared_ptr<detail::Lane> lane_;
};

}  // namespace tilemesh::cpu
