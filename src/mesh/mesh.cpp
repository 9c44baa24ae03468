#include "tilemesh/mesh/mesh.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilemesh/device/backend.hpp"

#include "mesh/mesh_core.hpp"

namespace tilemesh {

namespace {

void check_not_negative(std::string_view name, std::int64_t value) {
  if (value < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} of a mesh is {}: give a positive number, or 0 for the backend's "
                            "choice",
                            name, value));
  }
}

void check_order(const MeshShape& shape, std::span<const int> order) {
  std::vector<int> sorted(order.begin(), order.end());
  std::sort(sorted.begin(), sorted.end());
  bool right = std::cmp_equal(order.size(), shape.axes());
  for (std::size_t i = 0; right && i < sorted.size(); ++i) {
    right = std::cmp_equal(sorted[i], i);
  }
  if (!right) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("axes ({}) as the order of the {} axes of mesh {}: name each once, "
                            "from 0",
                            fmt::join(order, ","), shape.axes(), shape.to_string()));
  }
}

/// All coordinates with this index on this axis.
MeshRange slice(const MeshShape& shape, int axis, int index) {
  if (index < 0 || index >= shape[axis]) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("mesh {} has no {} {}: axis {} has {}", shape.to_string(),
                            axis == 0 ? "row" : "column", index, axis, shape[axis]));
  }
  const MeshRange all = MeshRange::all(shape);
  MeshCoord first = all.first();
  MeshCoord last = all.last();
  first[static_cast<std::size_t>(axis)] = last[static_cast<std::size_t>(axis)] = index;
  return {first, last};
}

}  // namespace

Counters operator-(const Counters& a, const Counters& b) {
  return {.host_to_device_bytes = a.host_to_device_bytes - b.host_to_device_bytes,
          .device_to_host_bytes = a.device_to_host_bytes - b.device_to_host_bytes,
          .host_to_device_transfers = a.host_to_device_transfers - b.host_to_device_transfers,
          .device_to_host_transfers = a.device_to_host_transfers - b.device_to_host_transfers,
          .conversions = a.conversions - b.conversions,
          .conversion_bytes = a.conversion_bytes - b.conversion_bytes,
          .device_to_device_bytes = a.device_to_device_bytes - b.device_to_device_bytes,
          .device_to_device_transfers = a.device_to_device_transfers - b.device_to_device_transfers,
          .programs_run = a.programs_run - b.programs_run};
}

Mesh::Mesh(std::shared_ptr<detail::MeshCore> core, const detail::MeshView& view)
    : core_(std::move(core)), view_(&view) {}

Mesh Mesh::open(const MeshOptions& options) {
  check_not_negative("threads_per_device", options.threads_per_device);
  check_not_negative("dram_bytes", options.dram_bytes);
  check_not_negative("l1_bytes", options.l1_bytes);
  check_not_negative("workers", options.workers);
  if (options.collective_timeout <= std::chrono::nanoseconds::zero()) {
    throw Error(ErrorCode::invalid_argument,
                "collective_timeout of a mesh is 0 or negative: devices need some time to meet");
  }
  if (options.shortage_timeout < std::chrono::nanoseconds::zero()) {
    throw Error(ErrorCode::invalid_argument,
                "shortage_timeout of a mesh is negative: 0 is not to wait for memory at all");
  }
  DeviceOptions device_options = {.count = options.shape.device_count(),
                                  .threads_per_device = options.threads_per_device,
                                  .workers = options.workers,
                                  .dram_bytes = options.dram_bytes,
                                  .l1_bytes = options.l1_bytes};
  for (int i = 0; i < device_options.count; ++i) {
    device_options.places.push_back(to_string(options.shape.coord_of(i)));
  }
  std::vector<std::unique_ptr<Device>> devices = find_backend(options.backend).open(device_options);
  TILEMESH_CHECK(std::cmp_equal(devices.size(), device_options.count),
                 "a backend opened another number of devices than asked");
  const auto core = std::make_shared<detail::MeshCore>(options, std::move(devices));
  return {core, core->whole()};
}

Mesh Mesh::view_of(const MeshShape& shape, std::span<const int> indices) const {
  std::vector<int> devices;
  devices.reserve(indices.size());
  for (const int index : indices) {
    devices.push_back(view_->device_at(index));
  }
  return {core_, core_->view(shape, std::move(devices))};
}

Mesh Mesh::submesh(const MeshRange& range) const {
  if (!shape().contains(range.first()) || !shape().contains(range.last())) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("range {} is outside of mesh {}: both ends belong to a range",
                            range.to_string(), shape().to_string()));
  }
  std::vector<int> indices;
  for (const MeshCoord& coord : range) {
    indices.push_back(shape().index_of(coord));
  }
  return view_of(range.shape(), indices);
}

Mesh Mesh::reshape(const MeshShape& shape) const {
  if (shape.device_count() != device_count()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a mesh of {} has {} devices and can't become one of {}, which has {}: "
                            "take a submesh first, or give sizes with the same product",
                            this->shape().to_string(), device_count(), shape.to_string(),
                            shape.device_count()));
  }
  return {core_, core_->view(shape, view_->devices)};
}

Mesh Mesh::permute(std::span<const int> order) const {
  check_order(shape(), order);
  const auto axes = static_cast<std::size_t>(shape().axes());
  MeshCoord sizes;
  for (const int axis : order) {
    sizes.push_back(shape()[axis]);
  }
  const MeshShape permuted{std::span<const std::int32_t>(sizes)};
  std::vector<int> indices;
  for (const MeshCoord& coord : MeshRange::all(permuted)) {
    MeshCoord source;
    source.resize(axes);
    for (std::size_t i = 0; i < axes; ++i) {
      source[static_cast<std::size_t>(order[i])] = coord[i];
    }
    indices.push_back(shape().index_of(source));
  }
  return view_of(permuted, indices);
}

MeshRange Mesh::row(int index) const {
  return slice(shape(), 0, index);
}

MeshRange Mesh::column(int index) const {
  return slice(shape(), shape().axes() - 1, index);
}

const MeshShape& Mesh::shape() const {
  return view_->shape;
}

Device& Mesh::device(int index) const {
  if (index < 0 || index >= device_count()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("mesh {} has no device {}: it has {}", shape().to_string(), index,
                            device_count()));
  }
  return core_->device(view_->device_at(index));
}

const std::string& Mesh::backend() const {
  return core_->backend();
}

MeshQueue& Mesh::queue(int index) const {
  return core_->queue(*view_, index);
}

std::shared_ptr<MeshQueue> Mesh::shared_queue(int index) const {
  return {core_, &queue(index)};
}

Counters Mesh::counters() const {
  return core_->counters();
}

MemoryReport memory_report(const Mesh& mesh) {
  return mesh.core().ledger().report(detail::allocator_devices(mesh.view()));
}

}  // namespace tilemesh
