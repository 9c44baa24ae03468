#include <algorithm>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"
#include "tilemesh/mesh/mesh_queue.hpp"

#include "mesh/enqueue_all.hpp"
#include "mesh/transfer_checks.hpp"

namespace tilemesh {

namespace {

using detail::check_device_side;
using detail::check_host_side;
using detail::check_rows;
using detail::or_else;
using detail::plus;
using detail::refuse;

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

}  // namespace

template <class Byte>
TransferRegion MeshQueue::check_shard(const MeshBufferView& buffer,
                                      const ShardTransfer<Byte>& shard,
                                      std::string_view what) const {
  device_at(buffer, shard.coord, what);
  const bool open = shard.region.row_bytes == kWholeBuffer.row_bytes && shard.region.rows == 1;
  const TransferRegion region = open ? whole(buffer, shard, what) : shard.region;
  check_rows(buffer, region, !std::is_const_v<Byte>, what);
  check_device_side(buffer, region, shard.device_offset, what);
  check_host_side(buffer, shard.host.data(), shard.host.size_bytes(), region, what);
  return region;
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
  check_host_side(buffer, host.data(), host.size_bytes(), region, what);
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

}  // namespace tilemesh
