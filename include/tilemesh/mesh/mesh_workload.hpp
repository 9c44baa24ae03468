#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tilemesh/device/device_kernel.hpp"
#include "tilemesh/mesh/mesh.hpp"
#include "tilemesh/mesh/mesh_buffer.hpp"

namespace tilemesh {

/// A kernel to add to workloads: a callable over spans, for devices whose memory the host can
/// address, or a description with sources too. A handle; copies share the kernel.
class MeshKernel {
 public:
  MeshKernel(std::shared_ptr<const DeviceKernel> kernel);  // NOLINT: a kernel is one
  MeshKernel(DeviceKernel kernel);                         // NOLINT: as above
  template <class Function>
  requires std::invocable<const Function&, const KernelCall&> MeshKernel(
      Function function)  // NOLINT: as above
      : MeshKernel(DeviceKernel{.name = "function", .function = std::move(function)}) {}

  const std::shared_ptr<const DeviceKernel>& shared() const { return kernel_; }

 private:
  std::shared_ptr<const DeviceKernel> kernel_;
};

/// What a kernel gets: of each buffer its device's own part, or a slice of it.
struct KernelOptions {
  std::optional<MeshBufferView> buffer = {};  ///< the first, if there is one
  std::vector<MeshBufferView> buffers = {};   ///< those after it
  std::vector<KernelArgument> args = {};
  /// Arguments of each coordinate, instead of `args`.
  std::function<std::vector<KernelArgument>(const MeshCoord&)> args_at = {};
};

/// Kernels on disjoint ranges of a mesh's coordinates. What can't be is refused when it is built,
/// not when it runs. Enqueue it as often as wanted, with other arguments in between: what was
/// enqueued keeps those that it had. Keeps the memory of its buffers reserved, also when their
/// owners free them, until it and what it enqueued have ended. Move-only; not thread-safe.
class MeshWorkload {
 public:
  /// For the mesh of the first buffer that is added.
  MeshWorkload() = default;
  explicit MeshWorkload(const Mesh& mesh) : mesh_(mesh) {}
  MeshWorkload(MeshWorkload&&) noexcept = default;
  MeshWorkload& operator=(MeshWorkload&&) noexcept = default;
  MeshWorkload(const MeshWorkload&) = delete;
  MeshWorkload& operator=(const MeshWorkload&) = delete;
  ~MeshWorkload() = default;

  /// Coordinates are those of the workload's mesh. Throws invalid_argument, and adds nothing, for a
  /// coordinate outside of it or one that has a kernel already, and for buffers of another mesh or
  /// that aren't on all of the devices; deallocated for a freed buffer.
  void add(const MeshRangeSet& coords, const MeshKernel& kernel, const KernelOptions& options = {});
  /// New arguments for later enqueues. Throws invalid_argument for a coordinate without a kernel.
  void set_args(const MeshRangeSet& coords, const std::vector<KernelArgument>& args);

  /// Coordinates that have a kernel.
  const MeshRangeSet& coords() const { return coords_; }

  /// One device's part, ready to be enqueued; for MeshQueue.
  struct Launch {
    MeshCoord coord;
    int device = 0;  ///< the core's number
    std::string label;
    std::shared_ptr<const DeviceKernel> kernel;
    std::shared_ptr<const KernelBinding> binding;
  };
  const std::vector<Launch>& launches() const { return launches_; }
  /// Throws invalid_argument unless a queue of this view has all of its devices.
  void check_queue(const detail::MeshCore& core, const detail::MeshView& view) const;
  /// What keeps the buffers' ranges; null if there are none.
  std::shared_ptr<const void> held() const { return held_; }

 private:
  using Holds = std::vector<std::shared_ptr<const void>>;
  void check_coords(const Mesh& mesh, const MeshRangeSet& coords, const DeviceKernel& kernel) const;

  std::optional<Mesh> mesh_;
  MeshRangeSet coords_;
  std::vector<Launch> launches_;
  std::shared_ptr<const Holds> held_;
};

}  // namespace tilemesh
