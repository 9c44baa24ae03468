#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tilemesh/mesh/mesh.hpp"
#include "tilemesh/mesh/mesh_buffer.hpp"

namespace tilemesh {

/// What every enqueue takes: what must end before, and what to call it in errors.
struct EnqueueOptions {
  std::vector<Event> after = {};
  std::string label = {};
};

/// One shard of a transfer: the device at `coord`, `device_offset` bytes into the buffer.
template <class Byte>
struct ShardTransfer {
  MeshCoord coord;
  Byte* host = nullptr;
  TransferRegion region;
  std::int64_t device_offset = 0;
  std::shared_ptr<std::conditional_t<std::is_const_v<Byte>, const void, void>> keep_alive;
};
using ShardWrite = ShardTransfer<const std::byte>;
using ShardRead = ShardTransfer<std::byte>;

namespace detail {
struct QueueLanes;
}  // namespace detail

/// One in-order queue per device of a mesh, filled together; on a view those of its devices.
/// Coordinates and indices are the view's. Commands on whole buffers act on the devices that queue
/// and buffer share: one of the two must have all devices of the other. Thread-safe; owned by the
/// mesh. Every enqueue_ returns at once with an event that completes when all its devices have
/// ended the command. Host memory of a transfer must stay until then, by `keep_alive` or by the
/// caller.
class MeshQueue {
 public:
  MeshQueue(detail::MeshCore& core, const detail::MeshView& view, int number,
            detail::QueueLanes& lanes);
  ~MeshQueue();
  MeshQueue(const MeshQueue&) = delete;
  MeshQueue& operator=(const MeshQueue&) = delete;

  Event enqueue_write(const MeshBufferView& buffer, std::span<const ShardWrite> shards,
                      EnqueueOptions options = {});
  /// The same host bytes to every device.
  Event enqueue_write_replicated(const MeshBufferView& buffer, const std::byte* host,
                                 std::int64_t bytes, std::shared_ptr<const void> keep_alive,
                                 EnqueueOptions options = {});
  Event enqueue_read(const MeshBufferView& buffer, std::span<const ShardRead> shards,
                     EnqueueOptions options = {});
  Event enqueue_fill(const MeshBufferView& buffer, std::vector<std::byte> pattern,
                     EnqueueOptions options = {});
  /// Device by device between two buffers of this mesh.
  Event enqueue_copy(const MeshBufferView& source, const MeshBufferView& target,
                     EnqueueOptions options = {});
  /// `function(device index)` on each device's thread.
  Event enqueue_host(std::function<void(int)> function, EnqueueOptions options = {});
  /// programs[i] on device i, all with the same bases. `keep_alive` is held until it has ended.
  Event enqueue_launch(std::span<const std::shared_ptr<DeviceProgram>> programs,
                       std::span<const DeviceAddress> bases, EnqueueOptions options,
                       std::shared_ptr<const void> keep_alive);
  /// Runs programs now, on the calling thread, if the mesh is one idle device that allows it;
  /// otherwise false and nothing is done. Allocates nothing.
  bool try_run_inline(std::span<const std::shared_ptr<DeviceProgram>> programs,
                      std::span<const DeviceAddress> bases);

  /// Completes when all that was enqueued so far has ended (failures of it don't fail the record).
  Event record();
  /// Later commands wait for the event; its failure doesn't fail them.
  void wait_for(const Event& event);
  bool idle() const;
  /// How many commands but marks were ever enqueued on queues of this number, by all views.
  std::uint64_t work_count() const;
  /// Lends the calling thread until the event is ready (where the backend allows), then returns as
  /// Event::wait does.
  void wait(const Event& event);
  /// Throws timeout if the time runs out; the queue stays usable.
  void finish();
  void finish(std::chrono::nanoseconds timeout);

 private:
  template <class MakeWork>
  Event enqueue_all(EnqueueOptions& options, std::shared_ptr<const void> keep_alive,
                    const MakeWork& make_work);
  void check_buffer(const MeshBufferView& buffer, std::string_view what) const;
  /// This queue as seen by the devices that the buffer shares with it.
  MeshQueue& narrowed_to(const MeshBufferView& buffer, std::string_view what);
  template <class Byte>
  std::int64_t check_shard(const MeshBufferView& buffer, const ShardTransfer<Byte>& shard,
                           std::string_view what) const;

  detail::MeshCore& core_;
  const detail::MeshView& view_;
  int number_;
  detail::QueueLanes& lanes_;
  std::vector<DeviceQueue*> queues_;  // in the view's order
};

}  // namespace tilemesh
