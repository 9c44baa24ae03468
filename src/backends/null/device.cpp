#include "backends/null/device.hpp"

#include <atomic>
#include <cstdlib>
#include <deque>
#include <mutex>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"
#include "tilemesh/device/command_flow.hpp"
#include "tilemesh/device/worker_scope.hpp"

#include "backends/null/backend.hpp"

namespace tilemesh::null {

using detail::WorkerScope;

/// The commands of one queue.
struct Lane {
  std::deque<Command> commands;
  bool active = false;  // in `ready`, being carried out, or waiting for an event
  std::atomic<int> unfinished = 0;
};

struct DeviceState : std::enable_shared_from_this<DeviceState> {
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }  // NOLINT: from aligned_alloc
  };
  using Arena = std::unique_ptr<std::byte, Free>;

  static Arena allocate(std::int64_t bytes) {
    const auto size = static_cast<std::size_t>(round_up<std::int64_t>(bytes, 4096));
    Arena arena(static_cast<std::byte*>(std::aligned_alloc(4096, size)));
    if (arena == nullptr) {
      throw Error(ErrorCode::mismatch, fmt::format("the host has no {} bytes for an arena", bytes));
    }
    return arena;
  }

  void add(const std::shared_ptr<Lane>& lane, Command command);
  void carry_on(std::unique_lock<std::mutex>& lock);
  void set_aside(const std::shared_ptr<Lane>& lane, const Event& awaited);
  bool try_run(Lane& lane, NullProgram& program, std::span<const DeviceAddress> bases);

  DeviceInfo info;
  std::string place;
  Arena dram;
  Arena l1;
  detail::HostMemory memory;
  std::mutex mutex;  // of the lanes and of the two below
  std::deque<std::shared_ptr<Lane>> ready;
  bool busy = false;  // a thread acts for the device: one command at a time
};

namespace {

/// None if the work has ended; otherwise what a launch waits for before it goes on.
std::optional<Event> carry_out(const CommandWork& work, const DeviceState& device) {
  const WorkerScope scope;
  const detail::HostMemory& memory = device.memory;
  if (const auto* write = std::get_if<WriteCommand>(&work)) {
    memory.write(*write);
  } else if (const auto* read = std::get_if<ReadCommand>(&work)) {
    memory.read(*read);
  } else if (const auto* fill = std::get_if<FillCommand>(&work)) {
    memory.fill(*fill);
  } else if (const auto* copy = std::get_if<CopyCommand>(&work)) {
    memory.copy(*copy);
  } else if (const auto* launch = std::get_if<LaunchCommand>(&work)) {
    return static_cast<NullProgram&>(*launch->program).run(launch->bases, launch->gathering);
  } else if (const auto* host = std::get_if<HostCommand>(&work)) {
    host->function();
  } else if (const auto* kernel = std::get_if<KernelCommand>(&work)) {
    memory.run(*kernel);
  } else if (const auto* list = std::get_if<ListCommand>(&work)) {
    detail::carry_out_list(*list, device.place,
                           [&device](const CommandWork& entry) { carry_out(entry, device); });
  }
  return std::nullopt;
}

/// The command's outcome; or `awaited`, if it isn't over.
Status outcome(Command& command, DeviceState& device, std::optional<Event>& awaited) {
  if (const Status failed = detail::failed_dependency(command); !failed.ok()) {
    return detail::give_up(command, failed);
  }
  try {
    awaited = carry_out(command.work, device);
    return {};
  } catch (...) {
    return detail::give_up(command,
                           detail::failure_of(command, std::current_exception(), device.place));
  }
}

}  // namespace

/// Adds, and carries out what is there unless somebody is at it, who then does this too.
void DeviceState::add(const std::shared_ptr<Lane>& lane, Command command) {
  lane->unfinished.fetch_add(1);
  std::unique_lock lock(mutex);
  lane->commands.push_back(std::move(command));
  if (!std::exchange(lane->active, true)) {
    ready.push_back(lane);
  }
  carry_on(lock);
}

void DeviceState::carry_on(std::unique_lock<std::mutex>& lock) {
  if (busy) {
    return;
  }
  busy = true;
  while (!ready.empty()) {
    const std::shared_ptr<Lane> lane = std::move(ready.front());
    ready.pop_front();
    if (const Event* unready = detail::first_unready(lane->commands.front())) {
      const Event awaited = *unready;
      lock.unlock();  // the callback may come at once
      set_aside(lane, awaited);
      lock.lock();
      continue;
    }
    Command command = std::move(lane->commands.front());
    lane->commands.pop_front();
    lock.unlock();
    std::optional<Event> awaited;
    const Status status = outcome(command, *this, awaited);
    if (awaited) {
      lock.lock();
      lane->commands.push_front(std::move(command));
      lock.unlock();
      set_aside(lane, *awaited);
      lock.lock();
      continue;
    }
    const EventSource done = detail::release(std::move(command));
    done.complete(status);
    lane->unfinished.fetch_sub(1);
    lock.lock();
    lane->active = !lane->commands.empty();
    if (lane->active) {
      ready.push_back(lane);
    }
  }
  busy = false;
}

/// The lane goes on once the event is complete, on the thread that completes it.
void DeviceState::set_aside(const std::shared_ptr<Lane>& lane, const Event& awaited) {
  awaited.then([self = shared_from_this(), lane](const Status&) {
    std::unique_lock again(self->mutex);
    self->ready.push_back(lane);
    self->carry_on(again);
  });
}

bool DeviceState::try_run(Lane& lane, NullProgram& program, std::span<const DeviceAddress> bases) {
  std::unique_lock lock(mutex);
  if (busy || !ready.empty() || lane.active || program.membership() != nullptr) {
    return false;
  }
  busy = true;
  lane.unfinished.fetch_add(1);
  lock.unlock();
  std::exception_ptr failure;
  try {
    const WorkerScope scope;
    program.run(bases, nullptr);
  } catch (...) {
    failure = std::current_exception();
  }
  lane.unfinished.fetch_sub(1);
  lock.lock();
  busy = false;
  carry_on(lock);
  lock.unlock();
  if (failure) {
    std::rethrow_exception(failure);
  }
  return true;
}

namespace {

class NullQueue final : public DeviceQueue {
 public:
  explicit NullQueue(std::shared_ptr<DeviceState> device) : device_(std::move(device)) {}

  void enqueue(Command command) override { device_->add(lane_, std::move(command)); }
  bool idle() const override { return lane_->unfinished.load() == 0; }
  bool try_run_inline(DeviceProgram& program, std::span<const DeviceAddress> bases) override {
    return device_->try_run(*lane_, static_cast<NullProgram&>(program), bases);
  }
  bool help() override { return false; }

 private:
  std::shared_ptr<DeviceState> device_;
  std::shared_ptr<Lane> lane_ = std::make_shared<Lane>();
};

constexpr std::int64_t kDramBytes = std::int64_t{64} << 20;
constexpr std::int64_t kL1Bytes = std::int64_t{1} << 20;

std::vector<std::unique_ptr<Device>> open(const DeviceOptions& options) {
  std::vector<std::unique_ptr<Device>> devices;
  for (int i = 0; i < options.count; ++i) {
    devices.push_back(std::make_unique<NullDevice>(i, options));
  }
  return devices;
}

TargetInfo query(int, int) {
  return {.backend = "null",
          .processor = "none",
          .features = {},
          .l1_bytes = kL1Bytes,
          .dram_bytes = kDramBytes,
          .memory_bytes = kDramBytes};
}

/// The reference target, which lives as long as the process, as an object of its own.
class NullTarget final : public Target {
 public:
  explicit NullTarget(TargetInfo info) : info_(std::move(info)) {}
  const TargetInfo& info() const override { return info_; }
  std::vector<Candidate> candidates(const OpCall& call,
                                    const std::vector<bool>& constant_inputs) const override {
    return reference_target().candidates(call, constant_inputs);
  }
  double convert_seconds(const OperandType& from, const Layout& to) const override {
    return reference_target().convert_seconds(from, to);
  }
  bool can_fuse(const OpCall& call, const ExpressionStep& step,
                const OperandType* operand) const override {
    return reference_target().can_fuse(call, step, operand);
  }

 private:
  TargetInfo info_;
};

std::unique_ptr<Target> target(const TargetInfo& info) {
  return std::make_unique<NullTarget>(info);
}

}  // namespace

NullDevice::NullDevice(int index, const DeviceOptions& options)
    : state_(std::make_shared<DeviceState>()) {
  const auto at = static_cast<std::size_t>(index);
  state_->info = {.name = fmt::format("null:{}", index),
                  .backend = "null",
                  .threads = 1,
                  .dram_bytes = options.dram_bytes > 0 ? options.dram_bytes : kDramBytes,
                  .l1_bytes = options.l1_bytes > 0 ? options.l1_bytes : kL1Bytes};
  state_->place = at < options.places.size() ? options.places[at] : state_->info.name;
  state_->dram = DeviceState::allocate(state_->info.dram_bytes);
  state_->l1 = DeviceState::allocate(state_->info.l1_bytes);
  state_->memory.set_arena(Space::dram, state_->dram.get(), state_->info.dram_bytes);
  state_->memory.set_arena(Space::l1, state_->l1.get(), state_->info.l1_bytes);
}

const DeviceInfo& NullDevice::info() const {
  return state_->info;
}

std::byte* NullDevice::map(Space space) {
  return state_->memory.base(space);
}

void NullDevice::commit(DeviceAddress address, std::int64_t bytes) {
  state_->memory.at(address, bytes);
}

std::shared_ptr<DeviceProgram> NullDevice::prepare(std::span<const DeviceStep> steps) {
  return std::make_shared<NullProgram>(steps, state_->place, state_->memory);
}

std::unique_ptr<DeviceQueue> NullDevice::create_queue() {
  return std::make_unique<NullQueue>(state_);
}

const Backend& backend() {
  static constexpr Backend kBackend = {"null", open, query, target};
  return kBackend;
}

}  // namespace tilemesh::null
