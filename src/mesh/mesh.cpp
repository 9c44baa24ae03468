#include "tilemesh/mesh/mesh.hpp"

#include <fmt/format.h>

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

}  // namespace

Counters operator-(const Counters& a, const Counters& b) {
  return {.host_to_device_bytes = a.host_to_device_bytes - b.host_to_device_bytes,
          .device_to_host_bytes = a.device_to_host_bytes - b.device_to_host_bytes,
          .host_to_device_transfers = a.host_to_device_transfers - b.host_to_device_transfers,
          .device_to_host_transfers = a.device_to_host_transfers - b.device_to_host_transfers,
          .conversions = a.conversions - b.conversions,
          .conversion_bytes = a.conversion_bytes - b.conversion_bytes,
          .programs_run = a.programs_run - b.programs_run};
}

Mesh::Mesh(std::shared_ptr<detail::MeshCore> core, const MeshShape& shape)
    : core_(std::move(core)), shape_(shape) {}

Mesh Mesh::open(const MeshOptions& options) {
  check_not_negative("threads_per_device", options.threads_per_device);
  check_not_negative("dram_bytes", options.dram_bytes);
  check_not_negative("l1_bytes", options.l1_bytes);
  DeviceOptions device_options = {.count = options.shape.device_count(),
                                  .threads_per_device = options.threads_per_device,
                                  .dram_bytes = options.dram_bytes,
                                  .l1_bytes = options.l1_bytes};
  for (int i = 0; i < device_options.count; ++i) {
    device_options.places.push_back(to_string(options.shape.coord_of(i)));
  }
  std::vector<std::unique_ptr<Device>> devices = find_backend(options.backend).open(device_options);
  TILEMESH_CHECK(std::cmp_equal(devices.size(), device_options.count),
                 "a backend opened another number of devices than asked");
  return {std::make_shared<detail::MeshCore>(options.shape, options.backend, std::move(devices)),
          options.shape};
}

Device& Mesh::device(int index) const {
  const auto& devices = core_->devices();
  if (index < 0 || std::cmp_greater_equal(index, devices.size())) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("mesh {} has no device {}: it has {}", shape_.to_string(), index,
                            devices.size()));
  }
  return *devices[static_cast<std::size_t>(index)];
}

const std::string& Mesh::backend() const {
  return core_->backend();
}

MeshQueue& Mesh::queue(int index) const {
  return core_->queue(index);
}

Counters Mesh::counters() const {
  return core_->counters();
}

MemoryReport memory_report(const Mesh& mesh) {
  return mesh.core().ledger().report();
}

}  // namespace tilemesh
