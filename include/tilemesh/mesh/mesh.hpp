#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tilemesh/device/device.hpp"
#include "tilemesh/memory/report.hpp"
#include "tilemesh/types/mesh_shape.hpp"

namespace tilemesh {

class MeshQueue;

namespace detail {
class MeshCore;
}  // namespace detail

/// What a mesh is made of.
struct MeshOptions {
  MeshShape shape = {1, 1};
  std::string backend = "cpu";
  int threads_per_device = 0;   ///< 0: the cores that the process may use, divided evenly, >= 1
  std::int64_t dram_bytes = 0;  ///< a device; 0: the backend's choice
  std::int64_t l1_bytes = 0;
};

/// What has crossed between host and devices since the mesh was opened; subtract two for an
/// interval. Bytes count when enqueued, once for each time that host memory is read or written: a
/// replicated write of n bytes counts n and one transfer, whatever the number of devices.
struct Counters {
  std::int64_t host_to_device_bytes = 0;
  std::int64_t device_to_host_bytes = 0;
  std::int64_t host_to_device_transfers = 0;
  std::int64_t device_to_host_transfers = 0;
  std::int64_t conversions = 0;       ///< implicit and explicit changes of layout, dtype or space
  std::int64_t conversion_bytes = 0;  ///< that they wrote
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

  const MeshShape& shape() const { return shape_; }
  int device_count() const { return shape_.device_count(); }
  /// Row-major index.
  Device& device(int index) const;
  const std::string& backend() const;
  /// Queue `index` of the mesh, made when first asked for; 0 is what submit uses. Lives as long as
  /// the devices.
  MeshQueue& queue(int index = 0) const;
  Counters counters() const;
  /// Two handles of the same devices in the same shape.
  friend bool operator==(const Mesh& a, const Mesh& b) {
    return a.core_ == b.core_ && a.shape_ == b.shape_;
  }

  /// For the parts above; not for users.
  detail::MeshCore& core() const { return *core_; }
  const std::shared_ptr<detail::MeshCore>& shared_core() const { return core_; }

 private:
  Mesh(std::shared_ptr<detail::MeshCore> core, const MeshShape& shape);
  std::shared_ptr<detail::MeshCore> core_;
  MeshShape shape_;
};

/// Used, free, peak, largest hole and holders of every space.
MemoryReport memory_report(const Mesh& mesh);

}  // namespace tilemesh
