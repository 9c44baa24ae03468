#pragma once

#include <atomic>
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

namespace tilemesh::detail {

/// What identifies a constant that lies on the devices.
struct ConstantKey {
  std::uint64_t hash = 0;  ///< of the content
  std::int64_t bytes = 0;  ///< per device
  Space space = Space::dram;
  friend auto operator<=>(const ConstantKey&, const ConstantKey&) = default;
};

/// What all views of a mesh share: devices, ledger, queues, counters. Kept by handles, buffers and
/// by commands in flight. Thread-safe.
class MeshCore : public std::enable_shared_from_this<MeshCore> {
 public:
  MeshCore(MeshShape shape, std::string backend, std::vector<std::unique_ptr<Device>> devices);
  ~MeshCore();

  /// The shape of the whole mesh; views may have another.
  const MeshShape& shape() const { return shape_; }
  const std::string& backend() const { return backend_; }
  const std::vector<std::unique_ptr<Device>>& devices() const { return devices_; }
  Ledger& ledger() { return ledger_; }

  // What has crossed, been converted or run; from any thread. See Counters.
  void count_upload(std::int64_t bytes, std::int64_t transfers = 1);
  void count_download(std::int64_t bytes, std::int64_t transfers = 1);
  void count_conversion(std::int64_t bytes);
  void count_program();
  Counters counters() const;

  /// A resident buffer with this key and these bytes; null if nobody holds one. Waits for pending
  /// uploads before it compares.
  std::shared_ptr<MeshBuffer> find_constant(const ConstantKey& key,
                                            std::span<const std::byte> bytes);
  /// Lets find_constant find it as long as somebody holds it; keeps nothing alive itself.
  void keep_constant(const ConstantKey& key, const std::shared_ptr<MeshBuffer>& buffer);

  MeshQueue& queue(int index);
  /// True if no queue has anything pending or running.
  bool idle() const;

  /// Gives a range back to the ledger once all that is enqueued now has ended.
  void free_in_order(Space space, const ByteRange& range, const std::string& label) noexcept;
  /// Waits until all pending work has ended and all that was freed is back in the ledger. Does
  /// nothing on a worker thread, which must not wait.
  void drain();

 private:
  struct PendingFree {
    Event after;
    Space space = Space::dram;
    ByteRange range;
    std::string label;
  };
  /// Record of all queues, shared by all who ask before more work is enqueued.
  Event mark_for_free();
  void free_what_is_due() noexcept;
  std::vector<MeshQueue*> all_queues() const;

  MeshShape shape_;
  std::string backend_;
  std::vector<std::unique_ptr<Device>> devices_;
  Ledger ledger_;

  using Count = std::atomic<std::int64_t>;
  Count uploaded_bytes_ = 0;
  Count uploads_ = 0;
  Count downloaded_bytes_ = 0;
  Count downloads_ = 0;
  Count conversions_ = 0;
  Count conversion_bytes_ = 0;
  Count programs_run_ = 0;

  std::mutex constants_mutex_;
  std::multimap<ConstantKey, std::weak_ptr<MeshBuffer>> constants_;

  mutable std::mutex queues_mutex_;
  std::map<int, std::unique_ptr<MeshQueue>> queues_;
  MeshQueue* first_queue_ = nullptr;  // number 0, which is always there

  std::mutex frees_mutex_;
  std::vector<PendingFree> frees_;
  Event last_mark_;                   // what the newest of them wait for,
  std::uint64_t last_mark_work_ = 0;  // and how much had been enqueued then
};

}  // namespace tilemesh::detail
