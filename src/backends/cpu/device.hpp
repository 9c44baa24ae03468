#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tilemesh/device/device.hpp"
#include "tilemesh/device/host_memory.hpp"
#include "tilemesh/device/strand.hpp"

#include "backends/cpu/arena.hpp"
#include "backends/cpu/machine.hpp"
#include "backends/cpu/worker_pool.hpp"

namespace tilemesh::cpu {

/// What a device, its queues, its programs and the thread that acts for it share.
class DeviceCore final : public detail::Strand, public Work {
 public:
  struct Options {
    DeviceInfo info;
    int number = 0;     ///< among those that are opened together
    std::string place;  ///< what errors call it
    std::shared_ptr<WorkList> workers;
    /// Other devices use the workers too: this one gives way to them between commands. Otherwise
    /// the worker is its own, and polls it for a while before it sleeps.
    bool shares_workers = false;
    std::shared_ptr<const CoreLease> lease;
    std::vector<unsigned> processors;  ///< that it is bound to
  };
  explicit DeviceCore(Options options);

  const DeviceInfo& info() const { return options_.info; }
  const detail::HostMemory& memory() const { return memory_; }
  Arena& arena(Space space) { return space == Space::l1 ? l1_ : dram_; }
  /// A device of one thread may be acted for by any thread.
  bool any_thread() const { return options_.info.threads == 1; }
  /// True if the calling thread would help rather than be in the way: it runs where the device's
  /// worker would, or the workers are shared.
  bool welcomes_help() const;
  void run() override;

 private:
  std::optional<Event> carry_out(const CommandWork& work) override;
  std::optional<Event> dispatch(const CommandWork& work);
  void schedule() override;

  Options options_;
  Arena dram_;
  Arena l1_;
  detail::HostMemory memory_;
};

/// A group of cores, or a share of them, with an arena for each space.
class CpuDevice final : public Device {
 public:
  CpuDevice(DeviceCore::Options options, std::shared_ptr<WorkerPool> pool);
  ~CpuDevice() override;

  const DeviceInfo& info() const override { return core_->info(); }
  std::byte* map(Space space) override { return core_->memory().base(space); }
  void commit(DeviceAddress address, std::int64_t bytes) override;
  std::shared_ptr<DeviceProgram> prepare(std::span<const DeviceStep> steps) override;
  std::unique_ptr<DeviceQueue> create_queue() override;

 private:
  std::shared_ptr<WorkerPool> pool_;  // ends with the last device that uses it
  std::shared_ptr<DeviceCore> core_;
  std::shared_ptr<detail::Lane> own_commands_;
};

}  // namespace tilemesh::cpu
