#include "tilemesh/mesh/mesh_queue.hpp"

#include <algorithm>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "tilemesh/base/math.hpp"
#include "tilemesh/device/host_memory.hpp"
#include "tilemesh/device/spin_wait.hpp"
#include "tilemesh/device/worker_scope.hpp"

#include "mesh/mesh_core.hpp"

namespace tilemesh {

namespace {

std::string_view or_else(std::string_view label, std::string_view otherwise) {
  return label.empty() ? otherwise : label;
}

/// Returns the bytes that a shard's transfer moves.
template <class Byte>
std::int64_t check_extent(const MeshBufferView& buffer, const MeshShape& shape,
                          const ShardTransfer<Byte>& shard, std::string_view what) {
  const TransferRegion& region = shard.region;
  const auto fail = [&](const std::string& text) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} of buffer \"{}\": {}", what, buffer.label(), text));
  };
  if (!shape.contains(shard.coord)) {
    fail(fmt::format("{} is outside of mesh {}", to_string(shard.coord), shape.to_string()));
  }
  if (region.row_bytes < 0 || region.rows < 0) {
    fail(
        fmt::format("{} rows of {} bytes: neither can be negative", region.rows, region.row_bytes));
  }
  const std::int64_t capacity = buffer.bytes_per_device();
  const bool fits_dense = region.row_bytes == 0 || region.rows <= capacity / region.row_bytes;
  if (!fits_dense || (region.rows > 1 && region.device_pitch_bytes > capacity)) {
    fail(fmt::format("{} rows of {} bytes at a pitch of {} don't fit its {} bytes per device",
                     region.rows, region.row_bytes, region.device_pitch_bytes, capacity));
  }
  if (region.rows > 1 && (region.device_pitch_bytes < region.row_bytes ||
                          (!std::is_const_v<Byte> && region.host_pitch_bytes < region.row_bytes))) {
    fail(fmt::format("rows of {} bytes overlap at pitches {} (host) and {} (device)",
                     region.row_bytes, region.host_pitch_bytes, region.device_pitch_bytes));
  }
  const std::int64_t bytes = region.rows * region.row_bytes;
  const std::int64_t extent = detail::extent_bytes(region, region.device_pitch_bytes);
  if (shard.device_offset < 0 || extent > capacity || shard.device_offset > capacity - extent) {
    fail(fmt::format("{} bytes at offset {} don't fit its {} bytes per device", extent,
                     shard.device_offset, capacity));
  }
  if (shard.host == nullptr && bytes > 0) {
    fail("the host memory is null");
  }
  return bytes;
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

template <class Byte>
std::int64_t MeshQueue::check_shard(const MeshBufferView& buffer, const ShardTransfer<Byte>& shard,
                                    std::string_view what) const {
  const std::int64_t bytes = check_extent(buffer, view_.shape, shard, what);
  const int index = view_.shape.index_of(shard.coord);
  if (!buffer.mesh().view().contains(view_.device_at(index))) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} of buffer \"{}\": the device at {} doesn't hold it: use a queue of "
                            "the buffer's mesh",
                            what, buffer.label(), to_string(shard.coord)));
  }
  return bytes;
}

/// One command a device; `make_work(index)` gives its work.
template <class MakeWork>
Event MeshQueue::enqueue_all(EnqueueOptions& options, std::shared_ptr<const void> keep_alive,
                             const MakeWork& make_work) {
  const std::size_t count = queues_.size();
  constexpr bool kMark = std::is_same_v<decltype(make_work(std::size_t{0})), MarkCommand>;
  EventSource done(static_cast<int>(count));
  const Event event = done.event();
  const std::lock_guard lock(lanes_.order);
  for (std::size_t i = 0; i < count; ++i) {
    const bool last = i + 1 == count;
    queues_[i]->enqueue(Command{.work = make_work(i),
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

Event MeshQueue::enqueue_write(const MeshBufferView& buffer, std::span<const ShardWrite> shards,
                               EnqueueOptions options) {
  const std::string what(or_else(options.label, "write"));
  check_buffer(buffer, what);
  const DeviceAddress address = buffer.address();
  std::int64_t bytes = 0;
  for (const ShardWrite& shard : shards) {
    bytes = checked_add(bytes, check_shard(buffer, shard, what));
  }
  if (shards.empty()) {
    return Event::when_all(options.after);
  }
  core_.count_upload(bytes, std::ssize(shards));
  const EventSource done(static_cast<int>(shards.size()));
  const std::lock_guard lock(lanes_.order);
  for (const ShardWrite& shard : shards) {
    const auto index = static_cast<std::size_t>(view_.shape.index_of(shard.coord));
    queues_[index]->enqueue(
        Command{.work = WriteCommand{shard.host, plus(address, shard.device_offset), shard.region,
                                     shard.keep_alive},
                .after = options.after,
                .done = done,
                .label = what,
                .keep_alive = nullptr,
                .devices_alive = core_.shared_from_this()});
  }
  lanes_.work_count.fetch_add(1);
  return done.event();
}

Event MeshQueue::enqueue_write_replicated(const MeshBufferView& buffer, const std::byte* host,
                                          std::int64_t bytes,
                                          std::shared_ptr<const void> keep_alive,
                                          EnqueueOptions options) {
  const std::string what(or_else(options.label, "write"));
  if (MeshQueue& narrow = narrowed_to(buffer, what); &narrow != this) {
    return narrow.enqueue_write_replicated(buffer, host, bytes, std::move(keep_alive),
                                           std::move(options));
  }
  const TransferRegion region = {.row_bytes = bytes};
  check_extent(buffer, view_.shape, ShardWrite{view_.shape.coord_of(0), host, region, 0, nullptr},
               what);
  core_.count_upload(bytes);
  const WriteCommand write = {host, buffer.address(), region, nullptr};
  options.label = what;
  return enqueue_all(options, std::move(keep_alive), [&](std::size_t) { return write; });
}

Event MeshQueue::enqueue_read(const MeshBufferView& buffer, std::span<const ShardRead> shards,
                              EnqueueOptions options) {
  const std::string what(or_else(options.label, "read"));
  check_buffer(buffer, what);
  const DeviceAddress address = buffer.address();
  std::int64_t bytes = 0;
  for (const ShardRead& shard : shards) {
    bytes = checked_add(bytes, check_shard(buffer, shard, what));
  }
  if (shards.empty()) {
    return Event::when_all(options.after);
  }
  core_.count_download(bytes, std::ssize(shards));
  const EventSource done(static_cast<int>(shards.size()));
  const std::lock_guard lock(lanes_.order);
  for (const ShardRead& shard : shards) {
    const auto index = static_cast<std::size_t>(view_.shape.index_of(shard.coord));
    queues_[index]->enqueue(Command{.work = ReadCommand{plus(address, shard.device_offset),
                                                        shard.host, shard.region, shard.keep_alive},
                                    .after = options.after,
                                    .done = done,
                                    .label = what,
                                    .keep_alive = nullptr,
                                    .devices_alive = core_.shared_from_this()});
  }
  lanes_.work_count.fetch_add(1);
  return done.event();
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
  return queues_.size() == 1 && programs.size() == 1 &&
         queues_.front()->try_run_inline(*programs.front(), bases);
}

Event MeshQueue::record() {
  if (idle()) {
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
  record().wait();
}

void MeshQueue::finish(std::chrono::nanoseconds timeout) {
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
