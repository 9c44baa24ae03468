#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tilemesh/device/device.hpp"
#include "tilemesh/device/event.hpp"
#include "tilemesh/types/mesh_shape.hpp"

namespace tilemesh {
class MeshQueue;
}  // namespace tilemesh

namespace tilemesh::detail {

/// The queues of all devices that one queue number names. The MeshQueues of all views share them,
/// so that a device sees the commands of its views in one order.
struct QueueLanes {
  std::vector<std::unique_ptr<DeviceQueue>> queues;  ///< by the core's number of the device
  std::mutex order;  ///< held while one command is handed to several devices
  std::atomic<std::uint64_t> work_count = 0;  ///< commands but marks
};

/// What a mesh handle points at. Each is made once per core and content, and lives as long as the
/// core, so that handles are cheap, compare by address, and queues of views never dangle. The
/// members below `whole` are guarded by the core; the others never change.
struct MeshView {
  MeshShape shape;
  std::vector<int> devices;  ///< the core's number of each device, in row-major order of the view
  std::vector<int> sorted;   ///< the same numbers in order: what the allocator takes
  bool whole = false;        ///< all devices of the core

  MeshQueue* first_queue = nullptr;  ///< number 0, which is always there
  std::map<int, std::unique_ptr<MeshQueue>> queues;
  Event last_mark;                             ///< what the newest frees wait for,
  std::uint64_t last_mark_work = 0;            ///< and how much had been enqueued then
  std::shared_ptr<Communicator> communicator;  ///< made when first asked for

  bool contains(int device) const {
    return whole || std::binary_search(sorted.begin(), sorted.end(), device);
  }
  bool contains(const MeshView& other) const {
    return whole || this == &other ||
           std::includes(sorted.begin(), sorted.end(), other.sorted.begin(), other.sorted.end());
  }
  bool shares_with(const MeshView& other) const {
    return std::any_of(sorted.begin(), sorted.end(),
                       [&](int device) { return other.contains(device); });
  }
  int device_at(int index) const { return devices[static_cast<std::size_t>(index)]; }
};

}  // namespace tilemesh::detail
