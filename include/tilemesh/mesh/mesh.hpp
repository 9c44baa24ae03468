#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tilemesh/device/device.hpp"
#include "tilemesh/memory/allocator.hpp"
#include "tilemesh/memory/report.hpp"
#include "tilemesh/types/mesh_range.hpp"
#include "tilemesh/types/mesh_shape.hpp"

namespace tilemesh {

class MeshQueue;

namespace detail {
class MeshCore;
struct MeshView;
}  // namespace detail

/// What a mesh is made of.
struct MeshOptions {
  MeshShape shape = {1, 1};
  std::string backend = "cpu";
  int threads_per_device = 0;  ///< 0: the cores that the process may use, divided evenly, >= 1
  /// Threads that all devices share, each of which then has one; 0: the backend's choice.
  int workers = 0;
  std::int64_t dram_bytes = 0;  ///< a device; 0: the backend's choice
  std::int64_t l1_bytes = 0;
  /// How long a device in a collective waits for one that doesn't come, before it fails with
  /// `timeout`; positive.
  std::chrono::nanoseconds collective_timeout = std::chrono::minutes(1);
  /// How long an allocation that finds no room waits for the commands that are pending, which may
  /// hold some, before it fails with `out_of_memory`; 0 or more.
  std::chrono::nanoseconds shortage_timeout = std::chrono::minutes(1);
  /// Wraps the allocator of each space, for limits, logs and tests; none: as it is.
  AllocatorDecorator decorate_allocator = {};
};

/// What has crossed between host and devices since the mesh was opened; subtract two for an
/// interval. Bytes count when enqueued, once for each time that host memory is read or written: a
/// replicated write of n bytes counts n and one transfer, whatever the number of devices.
struct Counters {
  std::int64_t host_to_device_bytes = 0;
  std::int64_t device_to_host_bytes = 0;
  std::int64_t host_to_device_transfers = 0;
  std::int64_t device_to_host_transfers = 0;
  std::int64_t conversions = 0;       ///< implicit and explicit changes of tensors' specs
  std::int64_t conversion_bytes = 0;  ///< that they wrote
  /// What devices have got of each other's memory to change the placement of tensors, and how often
  /// that was asked for; a program's own steps don't count.
  std::int64_t device_to_device_bytes = 0;
  std::int64_t device_to_device_transfers = 0;
  std::int64_t programs_run = 0;
  friend Counters operator-(const Counters& a, const Counters& b);
};

/// An immutable view of devices: shape + coordinate -> device. A cheap handle: copies and views
/// share the devices, which close when the last handle, buffer, tensor, executable and event is
/// gone. Thread-safe.
class Mesh {
 public:
  /// Throws invalid_argument for a shape or option that can't be, mismatch for what the machine
  /// can't give.
  static Mesh open(const MeshOptions& options = {});

  /// Views: new handles of the same devices, which change nothing for this one, for live buffers or
  /// for queues. A device works through what its views enqueue on queue `i` in one order.
  ///
  /// The devices of a range, in its shape. Throws invalid_argument for a range outside of the mesh.
  Mesh submesh(const MeshRange& range) const;
  /// The same devices in another shape, kept in row-major order. Throws invalid_argument for
  /// another number of devices.
  Mesh reshape(const MeshShape& shape) const;
  /// Axis `i` of the view is axis `order[i]` of this one. Throws invalid_argument unless `order`
  /// names each axis once.
  Mesh permute(std::span<const int> order) const;
  Mesh permute(std::initializer_list<int> order) const {
    return permute(std::span<const int>(order.begin(), order.size()));
  }
  /// All coordinates whose first index is `index`, and all whose last one is: of a mesh of two axes
  /// a row and a column.
  MeshRange row(int index) const;
  MeshRange column(int index) const;
  /// All coordinates.
  MeshRange range() const { return MeshRange::all(shape()); }

  const MeshShape& shape() const;
  int device_count() const { return shape().device_count(); }
  /// Row-major index.
  Device& device(int index) const;
  const std::string& backend() const;
  /// Queue `index` as seen through this view, made when first asked for; 0 is what submit uses.
  /// Lives as long as the devices, which it doesn't keep open.
  MeshQueue& queue(int index = 0) const;
  /// The same queue; its holder keeps the devices open.
  std::shared_ptr<MeshQueue> shared_queue(int index = 0) const;
  Counters counters() const;
  /// Two handles of the same devices in the same shape and order.
  friend bool operator==(const Mesh& a, const Mesh& b) {
    return a.core_ == b.core_ && a.view_ == b.view_;
  }

  /// For the parts above; not for users.
  detail::MeshCore& core() const { return *core_; }
  const std::shared_ptr<detail::MeshCore>& shared_core() const { return core_; }
  const detail::MeshView& view() const { return *view_; }

 private:
  Mesh(std::shared_ptr<detail::MeshCore> core, const detail::MeshView& view);
  /// The view of these devices, given by their row-major index in this one.
  Mesh view_of(const MeshShape& shape, std::span<const int> indices) const;

  std::shared_ptr<detail::MeshCore> core_;
  const detail::MeshView* view_;  // of the core
};

/// Used, free, peak, largest hole and holders of every space, on the devices of this view.
MemoryReport memory_report(const Mesh& mesh);

}  // namespace tilemesh
