#include "tilemesh/mesh/mesh_queue.hpp"

#include <algorithm>
#include <limits>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "tilemesh/base/math.hpp"
#include "tilemesh/device/capture_scope.hpp"
#include "tilemesh/device/host_memory.hpp"
#include "tilemesh/device/spin_wait.hpp"
#include "tilemesh/device/worker_scope.hpp"
#include "tilemesh/mesh/mesh_workload.hpp"

#include "mesh/mesh_core.hpp"
#include "mesh/trace_recorder.hpp"

namespace tilemesh {

namespace {

std::string_view or_else(std::string_view label, std::string_view otherwise) {
  return label.empty() ? otherwise : label;
}

[[noreturn]] void refuse(const MeshBufferView& buffer, std::string_view what,
                         const std::string& text) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} of buffer \"{}\": {}", what, buffer.label(), text));
}

void check_rows(const MeshBufferView& buffer, const TransferRegion& region, bool reads,
                std::string_view what) {
  if (region.row_bytes < 0 || region.rows < 0) {
    refuse(
        buffer, what,
        fmt::format("{} rows of {} bytes: neither can be negative", region.rows, region.row_bytes));
  }
  if (region.rows > 1 && (region.device_pitch_bytes < region.row_bytes ||
                          region.host_pitch_bytes < (reads ? region.row_bytes : 0))) {
    refuse(buffer, what,
           fmt::format("rows of {} bytes overlap at pitches {} (host) and {} (device)",
                       region.row_bytes, region.host_pitch_bytes, region.device_pitch_bytes));
  }
}

void check_device_side(const MeshBufferView& buffer, const TransferRegion& region,
                       std::int64_t offset, std::string_view what) {
  const std::int64_t capacity = buffer.bytes_per_device();
  const bool fits_dense = region.row_bytes == 0 || region.rows <= capacity / region.row_bytes;
  if (!fits_dense || (region.rows > 1 && region.device_pitch_bytes > capacity)) {
    refuse(buffer, what,
           fmt::format("{} rows of {} bytes at a pitch of {} don't fit its {} bytes per device",
                       region.rows, region.row_bytes, region.device_pitch_bytes, capacity));
  }
  const std::int64_t extent = detail::extent_bytes(region, region.device_pitch_bytes);
  if (offset < 0 || extent > capacity || offset > capacity - extent) {
    refuse(buffer, what,
           fmt::format("{} bytes at offset {} don't fit its {} bytes per device", extent, offset,
                       capacity));
  }
}

template <class Byte>
void check_host_side(const MeshBufferView& buffer, const BasicHostBytes<Byte>& host,
                     const TransferRegion& region, std::string_view what) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const bool beyond = region.rows > 1 && region.host_pitch_bytes > kMost / region.rows;
  const std::int64_t extent =
      beyond ? kMost : detail::extent_bytes(region, region.host_pitch_bytes);
  if (extent > host.size_bytes()) {
    refuse(buffer, what,
           fmt::format("{} rows of {} bytes at a pitch of {} need {} bytes of host memory, and it "
                       "has {}: give more, or a smaller region",
                       region.rows, region.row_bytes, region.host_pitch_bytes, extent,
                       host.size_bytes()));
  }
  if (extent > 0 && host.data() == nullptr) {
    refuse(buffer, what, "the host memory is null");
  }
}

/// What kWholeBuffer stands for.
template <class Byte>
TransferRegion whole(const MeshBufferView& buffer, const ShardTransfer<Byte>& shard,
                     std::string_view what) {
  const std::int64_t bytes =
      buffer.bytes_per_device() - std::max<std::int64_t>(shard.device_offset, 0);
  if (shard.host.size_bytes() != bytes) {
    refuse(buffer, what,
           fmt::format("the host memory has {} bytes, and the buffer {} per device from offset {}: "
                       "give as many, or say with a region which are meant",
                       shard.host.size_bytes(), std::max<std::int64_t>(bytes, 0),
                       shard.device_offset));
  }
  return {.row_bytes = bytes};
}

DeviceAddress plus(DeviceAddress address, std::int64_t bytes) {
  address.offset += bytes;
  return address;
}

}  // namespace

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
    refuse(buffer, what,
           fmt::format("{} is outside of mesh {}", to_string(coord), view_.shape.to_string()));
  }
  const int device = view_.device_at(view_.shape.index_of(coord));
  if (!buffer.mesh().view().contains(device)) {
    refuse(buffer, what,
           fmt::format("the device at {} doesn't hold it: use a queue of the buffer's mesh",
                       to_string(coord)));
  }
  return device;
}

template <class Byte>
TransferRegion MeshQueue::check_shard(const MeshBufferView& buffer,
                                      const ShardTransfer<Byte>& shard,
                                      std::string_view what) const {
  device_at(buffer, shard.coord, what);
  const bool open = shard.region.row_bytes == kWholeBuffer.row_bytes && shard.region.rows == 1;
  const TransferRegion region = open ? whole(buffer, shard, what) : shard.region;
  check_rows(buffer, region, !std::is_const_v<Byte>, what);
  check_device_side(buffer, region, shard.device_offset, what);
  check_host_side(buffer, shard.host, region, what);
  return region;
}

/// One command a device; `make_work(index)` gives its work.
template <class MakeWork>
Event MeshQueue::enqueue_all(EnqueueOptions& options, std::shared_ptr<const void> keep_alive,
                             const MakeWork& make_work) {
  const std::size_t count = queues_.size();
  constexpr bool kMark = std::is_same_v<decltype(make_work(std::size_t{0})), MarkCommand>;
  EventSource done(static_cast<int>(count));
  const Event event = done.event();
  detail::TraceRecorder* const trace = recorder();
  const std::lock_guard lock(lanes_.order);
  for (std::size_t i = 0; i < count; ++i) {
    const bool last = i + 1 == count;
    push(trace, view_.devices[i],
         Command{.work = make_work(i),
                 .after = last ? std::move(options.after) : options.after,
                 .done = last ? std::move(done) : done,
                 .label = last ? std::move(options.label) : options.label,
                 .keep_alive = last ? std::move(keep_alive) : keep_alive,
                 .devices_alive = core_.shared_from_this()});
  }
  if (!kMark) {
    lanes_.work_count.fetch_add(
        1);  // only now, so that a later mark comes behind all that is counted
  }
  return event;
}

template <class Byte>
Event MeshQueue::transfer(const MeshBufferView& buffer, std::span<const ShardTransfer<Byte>> shards,
                          EnqueueOptions& options, std::string_view otherwise) {
  constexpr bool kWrites = std::is_const_v<Byte>;
  const std::string what(or_else(options.label, otherwise));
  check_buffer(buffer, what);
  std::vector<TransferRegion> regions;
  std::int64_t bytes = 0;
  for (const auto& shard : shards) {
    regions.push_back(check_shard(buffer, shard, what));
    bytes = checked_add(bytes, regions.back().rows * regions.back().row_bytes);
  }
  if (shards.empty()) {
    return Event::when_all(options.after);
  }
  detail::TraceRecorder* const trace = recorder();
  if (trace != nullptr) {
    (kWrites ? trace->uploads() : trace->downloads()).add(bytes, std::ssize(shards));
  } else {
    kWrites ? core_.count_upload(bytes, std::ssize(shards))
            : core_.count_download(bytes, std::ssize(shards));
  }
  const EventSource done(static_cast<int>(shards.size()));
  const std::lock_guard lock(lanes_.order);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto& shard = shards[i];
    const DeviceAddress address = plus(buffer.address(), shard.device_offset);
    CommandWork work;
    if constexpr (kWrites) {
      work = WriteCommand{shard.host.data(), address, regions[i], shard.host.owner()};
    } else {
      work = ReadCommand{address, shard.host.data(), regions[i], shard.host.owner()};
    }
    push(trace, view_.device_at(view_.shape.index_of(shard.coord)),
         Command{.work = std::move(work),
                 .after = options.after,
                 .done = done,
                 .label = what,
                 .keep_alive = nullptr,
                 .devices_alive = core_.shared_from_this()});
  }
  lanes_.work_count.fetch_add(1);
  return done.event();
}

Event MeshQueue::enqueue_write(const MeshBufferView& buffer, std::span<const ShardWrite> shards,
                               EnqueueOptions options) {
  return transfer(buffer, shards, options, "write");
}

Event MeshQueue::enqueue_read(const MeshBufferView& buffer, std::span<const ShardRead> shards,
                              EnqueueOptions options) {
  return transfer(buffer, shards, options, "read");
}

Event MeshQueue::enqueue_write_replicated(const MeshBufferView& buffer, const std::byte* host,
                                          std::int64_t bytes,
                                          std::shared_ptr<const void> keep_alive,
                                          EnqueueOptions options) {
  if (bytes < 0) {
    refuse(buffer, or_else(options.label, "write"),
           fmt::format("{} bytes: a size can't be negative", bytes));
  }
  const std::span<const std::byte> span(host, static_cast<std::size_t>(bytes));
  return enqueue_write_replicated(buffer, HostBytes::borrow(span, std::move(keep_alive)),
                                  std::move(options));
}

Event MeshQueue::enqueue_write_replicated(const MeshBufferView& buffer, const HostBytes& host,
                                          EnqueueOptions options) {
  std::string what(or_else(options.label, "write"));
  if (MeshQueue& narrow = narrowed_to(buffer, what); &narrow != this) {
    return narrow.enqueue_write_replicated(buffer, host, std::move(options));
  }
  const TransferRegion region = {.row_bytes = host.size_bytes()};
  check_device_side(buffer, region, 0, what);
  check_host_side(buffer, host, region, what);
  if (detail::TraceRecorder* const trace = recorder()) {
    trace->uploads().add(host.size_bytes(), 1);
  } else {
    core_.count_upload(host.size_bytes());
  }
  const WriteCommand write = {host.data(), buffer.address(), region, nullptr};
  options.label = std::move(what);
  return enqueue_all(options, host.owner(), [&](std::size_t) { return write; });
}

Event MeshQueue::enqueue_fill(const MeshBufferView& buffer, std::vector<std::byte> pattern,
                              EnqueueOptions options) {
  const std::string_view what = or_else(options.label, "fill");
  if (MeshQueue& narrow = narrowed_to(buffer, what); &narrow != this) {
    return narrow.enqueue_fill(buffer, std::move(pattern), std::move(options));
  }
  if (pattern.empty() || pattern.size() > 16) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} of buffer \"{}\" with a pattern of {} bytes: give 1 to 16", what,
                            buffer.label(), pattern.size()));
  }
  const FillCommand fill = {buffer.address(), buffer.bytes_per_device(), std::move(pattern)};
  return enqueue_all(options, nullptr, [&](std::size_t) { return fill; });
}

Event MeshQueue::enqueue_copy(const MeshBufferView& source, const MeshBufferView& target,
                              EnqueueOptions options) {
  const std::string_view what = or_else(options.label, "copy");
  if (MeshQueue& narrow = narrowed_to(source, what).narrowed_to(target, what); &narrow != this) {
    return narrow.enqueue_copy(source, target, std::move(options));
  }
  if (source.bytes_per_device() != target.bytes_per_device()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} of buffer \"{}\" ({} bytes per device) to \"{}\" ({}): sizes must "
                            "be equal",
                            what, source.label(), source.bytes_per_device(), target.label(),
                            target.bytes_per_device()));
  }
  const CopyCommand copy = {nullptr, source.address(), target.address(), source.bytes_per_device()};
  return enqueue_all(options, nullptr, [&](std::size_t) { return copy; });
}

CopyCommand MeshQueue::make_copy(const MeshBufferView& source, const MeshBufferView& target,
                                 const ShardCopy& shard, std::string_view what) const {
  const int from = device_at(source, shard.from, what);
  const int to = device_at(target, shard.to, what);
  const std::int64_t bytes = shard.bytes == ShardCopy().bytes
                                 ? source.bytes_per_device() - shard.source_offset
                                 : shard.bytes;
  check_rows(source, {.row_bytes = bytes}, true, what);
  check_device_side(source, {.row_bytes = bytes}, shard.source_offset, what);
  check_device_side(target, {.row_bytes = bytes}, shard.target_offset, what);
  return {from == to ? nullptr : &core_.device(from), plus(source.address(), shard.source_offset),
          plus(target.address(), shard.target_offset), bytes};
}

Event MeshQueue::enqueue_copy(const MeshBufferView& source, const MeshBufferView& target,
                              std::span<const ShardCopy> shards, EnqueueOptions options) {
  const std::string what(or_else(options.label, "copy"));
  check_buffer(source, what);
  check_buffer(target, what);
  std::vector<CopyCommand> copies;
  for (const ShardCopy& shard : shards) {
    copies.push_back(make_copy(source, target, shard, what));
  }
  if (shards.empty()) {
    return Event::when_all(options.after);
  }
  detail::TraceRecorder* const trace = recorder();
  const std::lock_guard lock(lanes_.order);
  const auto mark = [&](const MeshCoord& coord, std::vector<Event> after) {
    Command command{.work = MarkCommand(), .after = std::move(after)};
    command.devices_alive = core_.shared_from_this();
    Event done = command.done.event();
    push(trace, view_.device_at(view_.shape.index_of(coord)), std::move(command));
    return done;
  };
  // A mark on each source that is another device orders the copy behind what that was given, and
  // one that waits for the copies keeps its later commands from the bytes that are being read.
  std::vector<std::vector<Event>> after(shards.size(), options.after);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (copies[i].source_device != nullptr) {
      after[i].push_back(mark(shards[i].from, {}));
    }
  }
  const EventSource done(static_cast<int>(shards.size()));
  for (std::size_t i = 0; i < shards.size(); ++i) {
    push(trace, view_.device_at(view_.shape.index_of(shards[i].to)),
         Command{.work = copies[i],
                 .after = std::move(after[i]),
                 .done = done,
                 .label = what,
                 .keep_alive = nullptr,
                 .devices_alive = core_.shared_from_this()});
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (copies[i].source_device != nullptr) {
      mark(shards[i].from, {done.event()});
    }
  }
  lanes_.work_count.fetch_add(1);
  return done.event();
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
  core_.count_upload(trace->uploads.bytes, trace->uploads.transfers);
  core_.count_download(trace->downloads.bytes, trace->downloads.transfers);
  Event last;
  {
    const std::lock_guard lock(lanes_.order);
    std::vector<Event> after = trace->outside;
    for (const detail::TraceState::Phase& phase : trace->phases) {
      const auto count =
          std::ranges::count_if(phase, [](const auto& list) { return list != nullptr; });
      const EventSource done(static_cast<int>(count));
      for (std::size_t device = 0; device < phase.size(); ++device) {
        if (phase[device] != nullptr) {
          push(outer, static_cast<int>(device),
               Command{.work = ListCommand{phase[device]},
                       .after = after,
                       .done = done,
                       .label = "replay",
                       .keep_alive = trace,
                       .devices_alive = core_.shared_from_this()});
        }
      }
      last = done.event();
      after = {last};
    }
    lanes_.work_count.fetch_add(1);
  }
  trace->promises->keep(last);
  return last;
}

Event MeshQueue::enqueue_host(std::function<void(int)> function, EnqueueOptions options) {
  if (!function) {
    throw Error(ErrorCode::invalid_argument, "enqueue_host without a function");
  }
  const auto shared = std::make_shared<const std::function<void(int)>>(std::move(function));
  return enqueue_all(options, nullptr, [&](std::size_t i) {
    return HostCommand{[shared, index = static_cast<int>(i)] {
      (*shared)(index);
    }};
  });
}

Event MeshQueue::enqueue_launch(std::span<const std::shared_ptr<DeviceProgram>> programs,
                                std::span<const DeviceAddress> bases, EnqueueOptions options,
                                std::shared_ptr<const void> keep_alive) {
  TILEMESH_CHECK(programs.size() == queues_.size(), "a launch needs one program a device");
  return enqueue_all(options, std::move(keep_alive), [&](std::size_t i) {
    return LaunchCommand{programs[i], {bases.begin(), bases.end()}};
  });
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
