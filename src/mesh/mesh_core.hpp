#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tilemesh/memory/ledger.hpp"
#include "tilemesh/mesh/mesh.hpp"
#include "tilemesh/mesh/mesh_buffer.hpp"
#include "tilemesh/mesh/mesh_queue.hpp"

#include "mesh/exchange_programs.hpp"
#include "mesh/mesh_view.hpp"

namespace tilemesh::detail {

/// What identifies a constant that lies on the devices.
struct ConstantKey {
  std::uint64_t hash = 0;  ///< of the content
  std::int64_t bytes = 0;  ///< per device
  Space space = Space::dram;
  std::vector<int> shards = {};  ///< which of its shards each device has; empty: the same on all
  friend auto operator<=>(const ConstantKey&, const ConstantKey&) = default;
};

/// What all views of a mesh share: devices, ledger, queues, counters. Kept by handles, buffers and
/// by commands in flight. Thread-safe.
class MeshCore : public std::enable_shared_from_this<MeshCore> {
 public:
  /// Devices that were opened with these options.
  MeshCore(const MeshOptions& options, std::vector<std::unique_ptr<Device>> devices);
  ~MeshCore();

  /// All devices in the shape that was opened.
  const MeshView& whole() const { return *whole_; }
  /// The view of these devices, by number, in this shape; the same one for equal arguments.
  const MeshView& view(const MeshShape& shape, std::vector<int> devices);
  const std::string& backend() const { return backend_; }
  const std::vector<std::unique_ptr<Device>>& devices() const { return devices_; }
  Device& device(int number) const { return *devices_[static_cast<std::size_t>(number)]; }
  /// Of the next buffer; from 1.
  std::uint64_t next_generation() { return generations_.fetch_add(1) + 1; }
  Ledger& ledger() { return ledger_; }

  // What has crossed, been converted or run; from any thread. See Counters.
  void count_upload(std::int64_t bytes, std::int64_t transfers = 1);
  void count_download(std::int64_t bytes, std::int64_t transfers = 1);
  void count_conversion(std::int64_t bytes);
  void count_exchange(std::int64_t bytes);
  void count_program();
  Counters counters() const;

  /// A buffer with this key and these bytes (of all shards) that is resident on all devices of the
  /// mesh (maybe on more, if it is the same on all); null if nobody holds one. Waits for pending
  /// uploads before it compares.
  std::shared_ptr<MeshBuffer> find_constant(const Mesh& mesh, const ConstantKey& key,
                                            std::span<const std::byte> bytes);
  /// Lets find_constant find it as long as somebody holds it; keeps nothing alive itself.
  void keep_constant(const ConstantKey& key, const std::shared_ptr<MeshBuffer>& buffer);

  /// The group of the view's devices, numbered in row-major order; the same one for each call.
  std::shared_ptr<Communicator> communicator(const MeshView& view);

  /// The programs that do nothing but this exchange among all devices of the view, its members;
  /// made when first asked for, and kept while they are among those used last.
  std::shared_ptr<const ExchangeProgram> exchange_program(const MeshView& view,
                                                          const Exchange& exchange);

  /// What a launch of this program on these lanes must wait for, so that all devices see its
  /// launches in one order whatever the queues: it has one place for its values. Notes that it ends
  /// with `done`. Requires the lanes' order.
  std::vector<Event> follow_launches(const DeviceProgram& program, const QueueLanes& lanes,
                                     const Event& done);

  MeshQueue& queue(const MeshView& view, int index);
  /// True if no queue of these devices has anything pending or running.
  bool idle(const MeshView& view) const;

  /// Gives a range of these devices back to the ledger once all that is enqueued on them now has
  /// ended.
  void free_in_order(const MeshView& view, Space space, const ByteRange& range,
                     const std::string& label) noexcept;
  /// Waits until all pending work of these devices has ended and all that was freed there is back
  /// in the ledger, or the time has run out: then false. On a worker thread, which must not wait,
  /// it does nothing.
  bool drain(const MeshView& view, std::chrono::nanoseconds timeout);
  void drain() { drain(*whole_, std::chrono::nanoseconds::max()); }
  std::chrono::nanoseconds shortage_timeout() const { return shortage_timeout_; }

 private:
  struct PendingFree {
    Event after;
    const MeshView* view = nullptr;
    Space space = Space::dram;
    ByteRange range;
    std::string label;
  };
  QueueLanes& lanes(int index);                // needs queues_mutex_
  MeshQueue& make(MeshView& view, int index);  // needs queues_mutex_
  MeshView& of_mine(const MeshView& view) const;
  /// Record of all queues, shared by all who ask before more work is enqueued.
  Event mark_for_free(const MeshView& view);
  void free_what_is_due() noexcept;
  std::vector<MeshQueue*> all_queues(const MeshView& view);

  std::string backend_;
  std::chrono::nanoseconds collective_timeout_;
  std::chrono::nanoseconds shortage_timeout_;
  std::vector<std::unique_ptr<Device>> devices_;
  Ledger ledger_;
  std::atomic<std::uint64_t> generations_ = 0;

  using Count = std::atomic<std::int64_t>;
  Count uploaded_bytes_ = 0;
  Count uploads_ = 0;
  Count downloaded_bytes_ = 0;
  Count downloads_ = 0;
  Count conversions_ = 0;
  Count conversion_bytes_ = 0;
  Count exchanged_bytes_ = 0;
  Count exchanges_ = 0;
  Count programs_run_ = 0;

  std::mutex constants_mutex_;
  std::multimap<ConstantKey, std::weak_ptr<MeshBuffer>> constants_;
  static constexpr std::size_t kFewConstants = 64;
  std::size_t sweep_constants_at_ = kFewConstants;

  mutable std::mutex queues_mutex_;
  std::map<int, std::unique_ptr<QueueLanes>> lanes_;
  std::map<std::vector<int>, std::unique_ptr<MeshView>> views_;  // by shape and devices
  MeshView* whole_ = nullptr;

  struct Launch {
    const DeviceProgram* program = nullptr;  // which lives as long as `done` isn't ready
    const QueueLanes* lanes = nullptr;
    Event done;
  };
  std::mutex launches_mutex_;
  std::vector<Launch> launches_;  // of programs with collectives, the newest of each

  ExchangePrograms exchange_programs_;

  std::mutex frees_mutex_;
  std::vector<PendingFree> frees_;
};

/// How the allocator names the devices of a view: null for all.
inline const std::vector<int>* allocator_devices(const MeshView& view) {
  return view.whole ? nullptr : &view.sorted;
}

}  // namespace tilemesh::detail
