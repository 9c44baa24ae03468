#include "tilemesh/mesh/mesh_queue.hpp"

#include <algorithm>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "tilemesh/device/capture_scope.hpp"
#include "tilemesh/device/spin_wait.hpp"
#include "tilemesh/device/worker_scope.hpp"
#include "tilemesh/mesh/mesh_workload.hpp"

#include "mesh/enqueue_all.hpp"
#include "mesh/transfer_checks.hpp"

namespace tilemesh {

MeshQueue::MeshQueue(detail::MeshCore& core, const detail::MeshView& view, int number,
                     detail::QueueLanes& lanes)
    : core_(core), view_(view), number_(number), lanes_(lanes) {
  queues_.reserve(view.devices.size());
  for (const int device : view.devices) {
    queues_.push_back(lanes.queues[static_cast<std::size_t>(device)].get());
  }
}

MeshQueue::~MeshQueue() = default;

std::uint64_t MeshQueue::work_count() const {
  return lanes_.work_count.load();
}

void MeshQueue::check_buffer(const MeshBufferView& buffer, std::string_view what) const {
  if (&buffer.mesh().core() != &core_) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} of buffer \"{}\" on a queue of another mesh: use a queue of its own "
                    "mesh",
                    what, buffer.label()));
  }
  (void)buffer.address();  // throws if it was freed
  if (detail::TraceRecorder* const trace = recorder()) {
    trace->hold(buffer.reserve());
  }
}

detail::TraceRecorder* MeshQueue::recorder() const {
  detail::Capture* const capture = detail::current_capture();
  if (capture == nullptr) [[likely]] {
    return nullptr;
  }
  auto* const trace = dynamic_cast<detail::TraceRecorder*>(capture);
  return trace != nullptr && &trace->core() == &core_ ? trace : nullptr;
}

void MeshQueue::push(detail::TraceRecorder* recorder, int device, Command command) const {
  if (recorder == nullptr) [[likely]] {
    lanes_.queues[static_cast<std::size_t>(device)]->enqueue(std::move(command));
  } else {
    command.devices_alive = nullptr;  // the trace keeps them open
    recorder->add(device, std::move(command));
  }
}

MeshQueue& MeshQueue::narrowed_to(const MeshBufferView& buffer, std::string_view what) {
  check_buffer(buffer, what);
  const detail::MeshView& holders = buffer.mesh().view();
  if (holders.contains(view_)) {
    return *this;
  }
  if (view_.contains(holders)) {
    return core_.queue(holders, number_);
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} of buffer \"{}\" on a queue of other devices: it lies on {} of the "
                          "mesh's, the queue is of {}, and neither has all of the other's: use a "
                          "queue of the buffer's mesh",
                          what, buffer.label(), holders.devices.size(), view_.devices.size()));
}

int MeshQueue::device_at(const MeshBufferView& buffer, const MeshCoord& coord,
                         std::string_view what) const {
  if (!view_.shape.contains(coord)) {
    detail::refuse(
        buffer, what,
        fmt::format("{} is outside of mesh {}", to_string(coord), view_.shape.to_string()));
  }
  const int device = view_.device_at(view_.shape.index_of(coord));
  if (!buffer.mesh().view().contains(device)) {
    detail::refuse(buffer, what,
                   fmt::format("the device at {} doesn't hold it: use a queue of the buffer's mesh",
                               to_string(coord)));
  }
  return device;
}

Event MeshQueue::enqueue(const MeshWorkload& workload, EnqueueOptions options) {
  const auto& launches = workload.launches();
  if (launches.empty()) {
    return Event::when_all(options.after);
  }
  workload.check_queue(core_, view_);
  detail::TraceRecorder* const trace = recorder();
  if (trace != nullptr) {
    trace->hold(workload.held());
  }
  const EventSource done(static_cast<int>(launches.size()));
  const std::lock_guard lock(lanes_.order);
  for (const auto& launch : launches) {
    push(trace, launch.device,
         Command{.work = KernelCommand{launch.kernel, launch.binding},
                 .after = options.after,
                 .done = done,
                 .label = options.label.empty() ? launch.label : options.label,
                 .keep_alive = nullptr,
                 .devices_alive = core_.shared_from_this()});
  }
  lanes_.work_count.fetch_add(1);
  return done.event();
}

Event MeshQueue::enqueue_trace(const std::shared_ptr<const detail::TraceState>& trace) {
  detail::TraceRecorder* const outer = recorder();
  if (outer != nullptr) {
    outer->uploads().add(trace->uploads.bytes, trace->uploads.transfers);
    outer->downloads().add(trace->downloads.bytes, trace->downloads.transfers);
  } else {
    core_.count_upload(trace->uploads.bytes, trace->uploads.transfers);
    core_.count_download(trace->downloads.bytes, trace->downloads.transfers);
  }
  Event last = trace->phases.empty() ? Event::when_all(trace->outside) : Event();
  {
    const std::lock_guard lock(lanes_.order);
    std::vector<Event> after = trace->outside;
    for (const detail::TracePhase& phase : trace->phases) {
      const auto count =
          std::ranges::count_if(phase.lists, [](const auto& list) { return list != nullptr; });
      const EventSource done(static_cast<int>(count));
      const bool meets = phase.communicator != nullptr;
      const auto gathering =
          meets ? open_meeting(phase, outer, done.event(), after) : std::shared_ptr<Gathering>();
      for (std::size_t device = 0; device < phase.lists.size(); ++device) {
        if (phase.lists[device] != nullptr) {
          push(outer, static_cast<int>(device),
               Command{.work = phase.work(device, gathering),
                       .after = after,
                       .done = done,
                       .label = meets ? "replay: " + phase.label() : "replay",
                       .keep_alive = trace,
                       .devices_alive = core_.shared_from_this()});
        }
      }
      if (meets && outer != nullptr) {
        outer->meet(nullptr);
      }
      last = done.event();
      after = {last};
    }
    lanes_.work_count.fetch_add(1);
  }
  trace->promises->keep(last);
  return last;
}

/// Each replay is a launch of its own. Requires the lanes' order.
std::shared_ptr<Gathering> MeshQueue::open_meeting(const detail::TracePhase& phase,
                                                   detail::TraceRecorder* outer, const Event& done,
                                                   std::vector<Event>& after) {
  if (outer != nullptr) {
    outer->meet(phase.communicator);
    return nullptr;
  }
  for (Event& before : core_.follow_launches(phase.program(), lanes_, done)) {
    after.push_back(std::move(before));
  }
  return phase.communicator->gather("replay: " + phase.label());
}

Event MeshQueue::enqueue_host(std::function<void(int)> function, EnqueueOptions options) {
  if (!function) {
    throw Error(ErrorCode::invalid_argument, "enqueue_host without a function");
  }
  const auto shared = std::make_shared<const std::function<void(int)>>(std::move(function));
  return enqueue_all(options, shared, [call = shared.get()](std::size_t i) {
    // The command keeps it alive; so small a function object takes no memory of its own.
    return HostCommand{[call, index = static_cast<int>(i)] {
      (*call)(index);
    }};
  });
}

Event MeshQueue::enqueue_launch(std::span<const std::shared_ptr<DeviceProgram>> programs,
                                std::span<const DeviceAddress> bases, EnqueueOptions options,
                                std::shared_ptr<const void> keep_alive) {
  TILEMESH_CHECK(programs.size() == queues_.size(), "a launch needs one program a device");
  const Membership* const membership = programs.front()->membership();
  if (membership == nullptr) {
    return enqueue_all(options, std::move(keep_alive), [&](std::size_t i) {
      return LaunchCommand{programs[i], {bases.begin(), bases.end()}};
    });
  }
  return enqueue_meeting(programs, bases, *membership, options, std::move(keep_alive));
}

Event MeshQueue::enqueue_meeting(std::span<const std::shared_ptr<DeviceProgram>> programs,
                                 std::span<const DeviceAddress> bases, const Membership& first,
                                 EnqueueOptions& options, std::shared_ptr<const void> keep_alive) {
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const Membership* const other = programs[i]->membership();
    TILEMESH_CHECK(other != nullptr && other->communicator == first.communicator &&
                       std::cmp_equal(other->member, i) &&
                       std::cmp_equal(other->communicator->size(), programs.size()),
                   "the programs of a launch meet another group than the queue's devices");
  }
  detail::TraceRecorder* const trace = recorder();
  const EventSource done(static_cast<int>(programs.size()));
  const std::lock_guard lock(lanes_.order);
  std::shared_ptr<Gathering> gathering;
  if (trace == nullptr) {
    gathering = first.communicator->gather(options.label);
    for (Event& before : core_.follow_launches(*programs.front(), lanes_, done.event())) {
      options.after.push_back(std::move(before));
    }
  } else {
    trace->meet(first.communicator);
  }
  for (std::size_t i = 0; i < programs.size(); ++i) {
    push(trace, view_.devices[i],
         Command{.work = LaunchCommand{programs[i], {bases.begin(), bases.end()}, gathering},
                 .after = options.after,
                 .done = done,
                 .label = options.label,
                 .keep_alive = keep_alive,
                 .devices_alive = core_.shared_from_this()});
  }
  if (trace != nullptr) {
    trace->meet(nullptr);
  }
  lanes_.work_count.fetch_add(1);
  return done.event();
}

bool MeshQueue::try_run_inline(std::span<const std::shared_ptr<DeviceProgram>> programs,
                               std::span<const DeviceAddress> bases) {
  detail::refuse_in_capture("a run on the calling thread");
  return queues_.size() == 1 && programs.size() == 1 &&
         queues_.front()->try_run_inline(*programs.front(), bases);
}

Event MeshQueue::record() {
  if (recorder() == nullptr && idle()) {
    return {};
  }
  EnqueueOptions options;
  return enqueue_all(options, nullptr, [](std::size_t) { return MarkCommand{}; });
}

void MeshQueue::wait_for(const Event& event) {
  if (!event.ready()) {
    EnqueueOptions options = {.after = {event}, .label = {}};
    enqueue_all(options, nullptr, [](std::size_t) { return MarkCommand{}; });
  }
}

bool MeshQueue::idle() const {
  return std::ranges::all_of(queues_, [](const auto& queue) { return queue->idle(); });
}

void MeshQueue::wait(const Event& event) {
  detail::refuse_in_capture("a wait");
  constexpr std::chrono::microseconds kSpin(100);
  detail::SpinWait spin(kSpin);
  while (!event.ready() && !detail::on_worker_thread()) {
    bool helped = false;
    for (const auto& queue : queues_) {
      helped = queue->help() || helped;
    }
    if (helped) {
      spin = detail::SpinWait(kSpin);
    } else if (!spin.step()) {
      break;
    }
  }
  event.wait();
}

void MeshQueue::finish() {
  detail::refuse_in_capture("finish()");
  record().wait();
}

void MeshQueue::finish(std::chrono::nanoseconds timeout) {
  detail::refuse_in_capture("finish()");
  if (!record().wait_for(timeout)) {
    throw Error(
        ErrorCode::timeout,
        fmt::format("a queue of mesh {} still has work after {}: it goes on; wait again, or "
                    "give it more time",
                    view_.shape.to_string(),
                    std::chrono::duration_cast<std::chrono::microseconds>(timeout)));
  }
}

}  // namespace tilemesh
