#include "backends/cpu/backend.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

#include "backends/cpu/device.hpp"
#include "backends/cpu/target.hpp"

namespace tilemesh::cpu {

namespace {

constexpr std::int64_t kLeastDram = std::int64_t{64} << 20;
constexpr std::int64_t kUsualL1 = std::int64_t{1} << 20;
constexpr int kMostDevices = 4096;

/// Three quarters of the memory, shared evenly: the rest is the host's.
std::int64_t default_dram_bytes(const Machine& machine, int devices) {
  constexpr std::int64_t kPage = std::int64_t{2} << 20;
  return std::max(kLeastDram, machine.memory_bytes / 4 * 3 / devices / kPage * kPage);
}

std::int64_t default_l1_bytes(const Machine& machine) {
  return machine.l2_bytes > 0 ? machine.l2_bytes : kUsualL1;
}

int threads_per_device(const Machine& machine, int devices, int wanted) {
  if (devices < 1 || devices > kMostDevices) {
    throw Error(ErrorCode::mismatch,
                fmt::format("a mesh of {} devices on the cpu backend: ask for 1 to {}", devices,
                            kMostDevices));
  }
  if (wanted <= 0) {
    return std::max(1, machine.cores() / devices);
  }
  if (wanted > 1 && checked_mul(wanted, devices) > machine.cores()) {
    throw Error(ErrorCode::mismatch,
                fmt::format("{} devices of {} threads want {} cores, this process may use {}: ask "
                            "for fewer threads per device (1 fits any number of devices)",
                            devices, wanted, checked_mul(wanted, devices), machine.cores()));
  }
  return wanted;
}

/// Of each device.
int threads_of(const Machine& machine, const DeviceOptions& options) {
  if (options.workers > 0 && options.threads_per_device > 1) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} threads a device and {} workers that all devices share: ask for one "
                    "or the other",
                    options.threads_per_device, options.workers));
  }
  return threads_per_device(machine, options.count,
                            options.workers > 0 ? 1 : options.threads_per_device);
}

/// A device to be, and the pool that acts for it.
struct Plan {
  DeviceCore::Options core;
  std::shared_ptr<WorkerPool> pool;
};

/// Every device a thread of its own, bound if there are cores that no other mesh holds.
void give_own_threads(const Machine& machine, std::vector<Plan>& plans) {
  const auto threads = static_cast<std::size_t>(plans.front().core.info.threads);
  const auto lease = std::make_shared<const CoreLease>(machine, threads * plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    DeviceCore::Options& core = plans[i].core;
    core.lease = lease;
    if (!lease->processors().empty()) {
      const auto first = lease->processors().begin() + static_cast<std::ptrdiff_t>(i * threads);
      core.processors.assign(first, first + static_cast<std::ptrdiff_t>(threads));
    }
    plans[i].pool =
        std::make_shared<WorkerPool>(WorkerPoolOptions{.workers = 1,
                                                       .name = core.info.name,
                                                       .processors = core.processors,
                                                       .threads_per_worker = core.info.threads});
    core.workers = plans[i].pool->list();
  }
}

void share_workers(int workers, std::vector<Plan>& plans) {
  const auto pool = std::make_shared<WorkerPool>(
      WorkerPoolOptions{.workers = workers, .name = "cpu", .spin = std::chrono::milliseconds(1)});
  for (Plan& plan : plans) {
    plan.pool = pool;
    plan.core.workers = pool->list();
    plan.core.shares_workers = true;
  }
}

std::vector<std::unique_ptr<Device>> open(const DeviceOptions& options) {
  const Machine machine = read_machine();
  const int threads = threads_of(machine, options);
  std::vector<Plan> plans(static_cast<std::size_t>(options.count));
  for (std::size_t i = 0; i < plans.size(); ++i) {
    DeviceCore::Options& core = plans[i].core;
    core.info = {.name = fmt::format("cpu:{}", i),
                 .backend = "cpu",
                 .threads = threads,
                 .dram_bytes = options.dram_bytes > 0 ? options.dram_bytes
                                                      : default_dram_bytes(machine, options.count),
                 .l1_bytes = options.l1_bytes > 0 ? options.l1_bytes : default_l1_bytes(machine)};
    core.number = static_cast<int>(i);
    core.place = i < options.places.size() ? options.places[i] : core.info.name;
  }
  if (options.workers > 0) {
    share_workers(options.workers, plans);
  } else if (options.count * threads <= machine.cores()) {
    give_own_threads(machine, plans);
  } else {
    share_workers(machine.cores(), plans);  // one a core
  }
  std::vector<std::unique_ptr<Device>> devices;
  for (Plan& plan : plans) {
    devices.push_back(std::make_unique<CpuDevice>(std::move(plan.core), std::move(plan.pool)));
  }
  return devices;
}

TargetInfo query(int device_count, int threads) {
  const Machine machine = read_machine();
  return {.backend = "cpu",
          .processor = machine.name,
          .features = machine.features,
          .cores = machine.cores(),
          .threads_per_device = threads_per_device(machine, device_count, threads),
          .l1_bytes = default_l1_bytes(machine),
          .dram_bytes = default_dram_bytes(machine, device_count),
          .l1d_cache_bytes = machine.l1d_bytes,
          .l2_cache_bytes = machine.l2_bytes,
          .l3_cache_bytes = machine.l3_bytes,
          .memory_bytes = machine.memory_bytes,
          .numa_nodes = machine.numa_nodes};
}

}  // namespace

const Backend& backend() {
  static constexpr Backend kBackend = {"cpu", open, query, make_target};
  return kBackend;
}

}  // namespace tilemesh::cpu
