#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilemesh/mesh/host_bytes.hpp"
#include "tilemesh/mesh/mesh.hpp"
#include "tilemesh/mesh/mesh_buffer.hpp"

namespace tilemesh {

/// What every enqueue takes: what must end before, and what to call it in errors.
struct EnqueueOptions {
  std::vector<Event> after = {};
  std::string label = {};
};

/// The whole of a buffer, from a transfer's device_offset on.
inline constexpr TransferRegion kWholeBuffer = {.row_bytes = -1};
/// `count` rows of `row_bytes`; a pitch of 0 says that rows follow each other without a gap.
constexpr TransferRegion rows(std::int64_t count, std::int64_t row_bytes,
                              std::int64_t host_pitch_bytes = 0,
                              std::int64_t device_pitch_bytes = 0) {
  return {.row_bytes = row_bytes,
          .rows = count,
          .host_pitch_bytes = host_pitch_bytes == 0 ? row_bytes : host_pitch_bytes,
          .device_pitch_bytes = device_pitch_bytes == 0 ? row_bytes : device_pitch_bytes};
}

/// One shard of a transfer: the device at `coord`, `device_offset` bytes into the buffer. The host
/// side begins at host's first byte (see HostBytes::from) and must hold the region.
template <class Byte>
struct ShardTransfer {
  MeshCoord coord;
  BasicHostBytes<Byte> host = {};
  TransferRegion region = kWholeBuffer;
  std::int64_t device_offset = 0;
};
using ShardWrite = ShardTransfer<const std::byte>;
using ShardRead = ShardTransfer<std::byte>;

/// Bytes from one device's part of a buffer to another's.
struct ShardCopy {
  MeshCoord from;
  MeshCoord to;
  std::int64_t source_offset = 0;
  std::int64_t target_offset = 0;
  std::int64_t bytes = -1;  ///< -1: all that is left of the source
};

class MeshWorkload;

namespace detail {
struct QueueLanes;
struct TracePhase;
struct TraceState;
class TraceRecorder;
}  // namespace detail

/// One in-order queue per device of a mesh, filled together; on a view those of its devices.
/// Coordinates and indices are the view's. Commands on whole buffers act on the devices that queue
/// and buffer share: one of the two must have all devices of the other. Thread-safe; owned by the
/// mesh. Every enqueue_ returns at once with an event that completes when all its devices have
/// ended the command; on a thread that captures (see MeshTrace) it records instead. Host memory of
/// a transfer is held until it has ended.
class MeshQueue {
 public:
  MeshQueue(detail::MeshCore& core, const detail::MeshView& view, int number,
            detail::QueueLanes& lanes);
  ~MeshQueue();
  MeshQueue(const MeshQueue&) = delete;
  MeshQueue& operator=(const MeshQueue&) = delete;

  /// Transfers to and from different devices run in parallel. Throws invalid_argument for a shard
  /// that doesn't fit the buffer or its host memory, and then enqueues nothing.
  Event enqueue_write(const MeshBufferView& buffer, std::span<const ShardWrite> shards,
                      EnqueueOptions options = {});
  Event enqueue_write(const MeshBufferView& buffer, std::initializer_list<ShardWrite> shards,
                      EnqueueOptions options = {}) {
    return enqueue_write(buffer, std::span(shards.begin(), shards.size()), std::move(options));
  }
  /// The same host bytes to the beginning of every device's part: one copy of them in host memory,
  /// whatever the number of devices.
  Event enqueue_write_replicated(const MeshBufferView& buffer, const HostBytes& host,
                                 EnqueueOptions options = {});
  Event enqueue_write_replicated(const MeshBufferView& buffer, const std::byte* host,
                                 std::int64_t bytes, std::shared_ptr<const void> keep_alive,
                                 EnqueueOptions options = {});
  Event enqueue_read(const MeshBufferView& buffer, std::span<const ShardRead> shards,
                     EnqueueOptions options = {});
  Event enqueue_read(const MeshBufferView& buffer, std::initializer_list<ShardRead> shards,
                     EnqueueOptions options = {}) {
    return enqueue_read(buffer, std::span(shards.begin(), shards.size()), std::move(options));
  }
  Event enqueue_fill(const MeshBufferView& buffer, std::vector<std::byte> pattern,
                     EnqueueOptions options = {});
  /// Device by device between two buffers of this mesh.
  Event enqueue_copy(const MeshBufferView& source, const MeshBufferView& target,
                     EnqueueOptions options = {});
  /// From device to device, after what both were given before; what either is given later comes
  /// after the copy. Throws invalid_argument for a coordinate or bytes outside.
  Event enqueue_copy(const MeshBufferView& source, const MeshBufferView& target,
                     std::span<const ShardCopy> shards, EnqueueOptions options = {});
  Event enqueue_copy(const MeshBufferView& source, const MeshBufferView& target,
                     std::initializer_list<ShardCopy> shards, EnqueueOptions options = {}) {
    return enqueue_copy(source, target, std::span(shards.begin(), shards.size()),
                        std::move(options));
  }
  /// The workload's kernels, each on its device, with the arguments that they have now. Completes
  /// when all have ended. Throws invalid_argument if the queue hasn't all of its devices.
  Event enqueue(const MeshWorkload& workload, EnqueueOptions options = {});
  /// `function(device index)` on each device's thread.
  Event enqueue_host(std::function<void(int)> function, EnqueueOptions options = {});
  /// programs[i] on device i, all with the same bases. `keep_alive` is held until it has ended.
  Event enqueue_launch(std::span<const std::shared_ptr<DeviceProgram>> programs,
                       std::span<const DeviceAddress> bases, EnqueueOptions options,
                       std::shared_ptr<const void> keep_alive);
  /// Runs programs now, on the calling thread, if the mesh is one idle device that allows it;
  /// otherwise false and nothing is done. Allocates nothing. Can't be captured.
  bool try_run_inline(std::span<const std::shared_ptr<DeviceProgram>> programs,
                      std::span<const DeviceAddress> bases);

  /// Completes when all that was enqueued so far has ended, its events are complete and what was
  /// given to their then() has run (failures of it don't fail the record).
  Event record();
  /// Later commands wait for the event; its failure doesn't fail them.
  void wait_for(const Event& event);
  /// True if all that was enqueued has ended, as for record().
  bool idle() const;
  /// How many commands but marks were ever enqueued on queues of this number, by all views.
  std::uint64_t work_count() const;
  /// Lends the calling thread until the event is ready (where the backend allows), then returns as
  /// Event::wait does. Neither this nor finish() can be captured.
  void wait(const Event& event);
  /// Throws timeout if the time runs out; the queue stays usable.
  void finish();
  void finish(std::chrono::nanoseconds timeout);

 private:
  friend class MeshTrace;

  template <class MakeWork>
  Event enqueue_all(EnqueueOptions& options, std::shared_ptr<const void> keep_alive,
                    const MakeWork& make_work);
  template <class Byte>
  Event transfer(const MeshBufferView& buffer, std::span<const ShardTransfer<Byte>> shards,
                 EnqueueOptions& options, std::string_view otherwise);
  /// A launch whose devices meet, as `first` says for the first of them.
  Event enqueue_meeting(std::span<const std::shared_ptr<DeviceProgram>> programs,
                        std::span<const DeviceAddress> bases, const Membership& first,
                        EnqueueOptions& options, std::shared_ptr<const void> keep_alive);
  /// One list a device and phase, each phase behind the one before.
  Event enqueue_trace(const std::shared_ptr<const detail::TraceState>& trace);
  std::shared_ptr<Gathering> open_meeting(const detail::TracePhase& phase,
                                          detail::TraceRecorder* outer, const Event& done,
                                          std::vector<Event>& after);
  /// What the calling thread records into; null if it doesn't, or another mesh's work.
  detail::TraceRecorder* recorder() const;
  /// Hands a command to the device of this number in the core, or to the recorder.
  void push(detail::TraceRecorder* recorder, int device, Command command) const;
  void check_buffer(const MeshBufferView& buffer, std::string_view what) const;
  /// This queue as seen by the devices that the buffer shares with it.
  MeshQueue& narrowed_to(const MeshBufferView& buffer, std::string_view what);
  /// Returns the region with what was left open filled in.
  template <class Byte>
  TransferRegion check_shard(const MeshBufferView& buffer, const ShardTransfer<Byte>& shard,
                             std::string_view what) const;
  /// The core's number of a coordinate's device, which must hold the buffer.
  int device_at(const MeshBufferView& buffer, const MeshCoord& coord, std::string_view what) const;
  CopyCommand make_copy(const MeshBufferView& source, const MeshBufferView& target,
                        const ShardCopy& shard, std::string_view what) const;

  detail::MeshCore& core_;
  const detail::MeshView& view_;
  int number_;
  detail::QueueLanes& lanes_;
  std::vector<DeviceQueue*> queues_;  // in the view's order
};

}  // namespace tilemesh
