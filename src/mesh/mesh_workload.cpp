#include "tilemesh/mesh/mesh_workload.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "mesh/mesh_core.hpp"

namespace tilemesh {

namespace {

[[noreturn]] void refuse(const std::string& kernel, const std::string& text) {
  throw Error(ErrorCode::invalid_argument, fmt::format("kernel \"{}\": {}", kernel, text));
}

}  // namespace

MeshKernel::MeshKernel(std::shared_ptr<const DeviceKernel> kernel) : kernel_(std::move(kernel)) {
  if (kernel_ == nullptr) {
    throw Error(ErrorCode::invalid_argument, "a null kernel: give a function or a description");
  }
}

MeshKernel::MeshKernel(DeviceKernel kernel)
    : kernel_(std::make_shared<const DeviceKernel>(std::move(kernel))) {}

void MeshWorkload::check_coords(const Mesh& mesh, const MeshRangeSet& coords,
                                const DeviceKernel& kernel) const {
  for (const MeshRange& range : coords.ranges()) {
    if (!mesh.shape().contains(range.first()) || !mesh.shape().contains(range.last())) {
      refuse(kernel.name,
             fmt::format("{} is outside of mesh {}", range.to_string(), mesh.shape().to_string()));
    }
  }
  if (coords_.intersects(coords)) {
    refuse(kernel.name, fmt::format("{} of {} have a kernel of this workload already: give each "
                                    "coordinate one, or enqueue two workloads",
                                    coords_.intersect(coords).to_string(), coords.to_string()));
  }
}

void MeshWorkload::add(const MeshRangeSet& coords, const MeshKernel& kernel,
                       const KernelOptions& options) {
  const std::string& name = kernel.shared()->name;
  std::vector<MeshBufferView> buffers = options.buffers;
  if (options.buffer) {
    buffers.insert(buffers.begin(), *options.buffer);
  }
  if (!mesh_ && buffers.empty()) {
    refuse(name,
           "its workload knows no mesh: make it with MeshWorkload(mesh), or add a kernel with "
           "a buffer first");
  }
  const Mesh mesh = mesh_ ? *mesh_ : buffers.front().mesh();
  check_coords(mesh, coords, *kernel.shared());

  std::vector<int> devices;
  for (const MeshCoord& coord : coords.coords()) {
    devices.push_back(mesh.view().device_at(mesh.shape().index_of(coord)));
  }
  KernelBinding binding{.arguments = options.args};
  Holds holds = held_ == nullptr ? Holds() : *held_;
  for (const MeshBufferView& buffer : buffers) {
    if (&buffer.mesh().core() != &mesh.core() || !std::ranges::all_of(devices, [&](int device) {
          return buffer.mesh().view().contains(device);
        })) {
      refuse(name,
             fmt::format("buffer \"{}\" isn't on all devices of {}: allocate it on their mesh",
                         buffer.label(), coords.to_string()));
    }
    binding.buffers.push_back({buffer.address(), buffer.bytes_per_device()});
    holds.push_back(buffer.reserve());
  }

  std::vector<Launch> launches = launches_;
  for (const MeshCoord& coord : coords.coords()) {
    binding.device = mesh.shape().index_of(coord);
    if (options.args_at) {
      binding.arguments = options.args_at(coord);
    }
    launches.push_back({.coord = coord,
                        .device = mesh.view().device_at(binding.device),
                        .label = fmt::format("kernel \"{}\"", name),
                        .kernel = kernel.shared(),
                        .binding = std::make_shared<const KernelBinding>(binding)});
  }
  auto held = std::make_shared<const Holds>(std::move(holds));
  // Nothing throws from here on but for want of memory.
  coords_.add(coords);
  launches_ = std::move(launches);
  held_ = std::move(held);
  mesh_ = mesh;
}

void MeshWorkload::set_args(const MeshRangeSet& coords, const std::vector<KernelArgument>& args) {
  if (!coords_.contains(coords)) {
    MeshRangeSet missing = coords;
    missing.subtract(coords_);
    throw Error(ErrorCode::invalid_argument,
                fmt::format("arguments for {}, where the workload has no kernel: add one first",
                            missing.to_string()));
  }
  for (Launch& launch : launches_) {
    if (coords.contains(launch.coord)) {
      KernelBinding changed = *launch.binding;  // what was enqueued shares the old one
      changed.arguments = args;
      launch.binding = std::make_shared<const KernelBinding>(std::move(changed));
    }
  }
}

void MeshWorkload::check_queue(const detail::MeshCore& core, const detail::MeshView& view) const {
  if (launches_.empty()) {
    return;
  }
  if (&mesh_->core() != &core) {
    throw Error(ErrorCode::invalid_argument,
                "a workload on a queue of another mesh: use a queue of its own mesh");
  }
  for (const Launch& launch : launches_) {
    if (!view.contains(launch.device)) {
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("a workload on a queue that hasn't the device of {} of mesh {}: use a "
                      "queue of the workload's mesh",
                      to_string(launch.coord), mesh_->shape().to_string()));
    }
  }
}

}  // namespace tilemesh
