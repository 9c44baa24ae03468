#include "backends/cpu/device.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "tilemesh/device/command_flow.hpp"
#include "tilemesh/device/worker_scope.hpp"

#include "backends/cpu/omp_threads.hpp"
#include "backends/cpu/program.hpp"
#include "backends/cpu/queue.hpp"

namespace tilemesh::cpu {

DeviceCore::DeviceCore(Options options)
    : Strand(options.place),
      options_(std::move(options)),
      dram_(options_.info.dram_bytes, options_.number),
      l1_(options_.info.l1_bytes, options_.number) {
  for (const Space space : {Space::dram, Space::l1}) {
    const Arena& range = arena(space);
    memory_.set_arena(space, range.data(), range.bytes());
    place_near(options_.processors, range.data(), range.bytes());
  }
}

bool DeviceCore::welcomes_help() const {
  if (!any_thread()) {
    return false;
  }
  // On another core it would take the place of that core's device, while the worker, which is awake
  // by now, spins on this one's.
  return options_.shares_workers || options_.processors.empty() ||
         std::ranges::find(options_.processors, this_processor()) != options_.processors.end();
}

void DeviceCore::run() {
  constexpr int kTurn = 16;  // commands before other devices get theirs
  constexpr std::chrono::milliseconds kPoll(1);
  if (options_.shares_workers) {
    carry_on(kTurn);
  } else {
    poll(kPoll);
  }
}

void DeviceCore::schedule() {
  options_.workers->schedule(std::static_pointer_cast<DeviceCore>(shared_from_this()));
}

std::optional<Event> DeviceCore::carry_out(const CommandWork& work) {
  const OmpThreads guard(options_.info.threads);
  return dispatch(work);
}

std::optional<Event> DeviceCore::dispatch(const CommandWork& work) {
  // What others do meanwhile takes less, or much more: then the worker is free for other queues. A
  // shared worker may be what the others wait for.
  constexpr std::chrono::microseconds kSpin(50);
  if (const auto* launch = std::get_if<LaunchCommand>(&work)) {
    return static_cast<CpuProgram&>(*launch->program)
        .run(launch->bases, launch->gathering,
             options_.shares_workers ? std::chrono::nanoseconds() : kSpin);
  }
  detail::carry_out(work, memory_, place(), [this](const CommandWork& entry) { dispatch(entry); });
  return std::nullopt;
}

CpuDevice::CpuDevice(DeviceCore::Options options, std::shared_ptr<WorkerPool> pool)
    : pool_(std::move(pool)),
      core_(std::make_shared<DeviceCore>(std::move(options))),
      own_commands_(core_->make_lane()) {}

CpuDevice::~CpuDevice() {
  core_->close();
}

void CpuDevice::commit(DeviceAddress address, std::int64_t bytes) {
  core_->arena(address.space).commit(address.offset, bytes);
}

std::shared_ptr<DeviceProgram> CpuDevice::prepare(std::span<const DeviceStep> steps) {
  std::shared_ptr<CpuProgram> program;
  const auto make = [&] {
    const OmpThreads guard(core_->info().threads);
    const DeviceInfo& info = core_->info();
    program = std::make_shared<CpuProgram>(
        steps, core_->memory(), core_->place(),
        KernelContext{.threads = info.threads, .memory_bytes = info.dram_bytes});
  };
  if (core_->any_thread() || pool_->is_this_thread()) {
    make();
    return program;
  }
  if (detail::on_worker_thread()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a program for device {} can't be prepared on another device's thread, "
                            "which must not wait: prepare it before",
                            core_->place()));
  }
  Command command{.work = HostCommand{make}};
  const Event made = command.done.event();
  core_->enqueue(own_commands_, std::move(command));
  made.wait();
  return program;
}

std::unique_ptr<DeviceQueue> CpuDevice::create_queue() {
  return std::make_unique<CpuQueue>(core_);
}

}  // namespace tilemesh::cpu
