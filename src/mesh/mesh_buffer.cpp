#include "tilemesh/mesh/mesh_buffer.hpp"

#include <bit>

#include <fmt/format.h>

#include "mesh/mesh_core.hpp"

namespace tilemesh {

namespace {

void check(const MeshBufferOptions& options) {
  if (options.bytes_per_device < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("buffer \"{}\" asks for {} bytes: a size can't be negative",
                            options.label, options.bytes_per_device));
  }
  if (options.alignment <= 0 ||
      !std::has_single_bit(static_cast<std::uint64_t>(options.alignment))) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("buffer \"{}\" asks for an alignment of {}: give a power of two",
                            options.label, options.alignment));
  }
  if (options.space == Space::host) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("buffer \"{}\" asks for space host: a mesh buffer lies in dram or l1, "
                            "host data in a host tensor",
                            options.label));
  }
}

}  // namespace

MeshBuffer::MeshBuffer(Mesh mesh, Space space, ByteRange range, std::int64_t bytes,
                       std::string label)
    : mesh_(std::move(mesh)),
      address_{space, range.offset},
      bytes_(bytes),
      reserved_bytes_(range.bytes),
      label_(std::move(label)),
      allocated_(true) {}

MeshBuffer MeshBuffer::allocate(const Mesh& mesh, const MeshBufferOptions& options) {
  check(options);
  detail::MeshCore& core = mesh.core();
  const std::vector<int>* const devices = detail::allocator_devices(mesh.view());
  const auto attempt = [&] {
    return core.ledger().allocate(options.space, options.bytes_per_device, options.alignment,
                                  options.temporary ? Lifetime::temporary : Lifetime::lasting,
                                  options.label, devices);
  };
  std::optional<ByteRange> range = attempt();
  if (!range) {
    core.drain(mesh.view());
    range = attempt();
  }
  if (!range) {
    throw Error(ErrorCode::out_of_memory,
                core.ledger().describe_shortage(
                    options.space, options.bytes_per_device, options.label, devices,
                    devices == nullptr ? "" : "submesh " + mesh.shape().to_string()));
  }
  MeshBuffer buffer(mesh, options.space, *range, options.bytes_per_device, options.label);
  buffer.held_by_commands_ = options.held_by_commands;
  for (const int device : mesh.view().devices) {
    core.device(device).commit(buffer.address_, options.bytes_per_device);
  }
  return buffer;
}

MeshBuffer::MeshBuffer(MeshBuffer&& other) noexcept
    : mesh_(other.mesh_),
      address_(other.address_),
      bytes_(other.bytes_),
      reserved_bytes_(other.reserved_bytes_),
      label_(std::move(other.label_)),
      held_by_commands_(other.held_by_commands_),
      allocated_(std::exchange(other.allocated_, false)) {}

MeshBuffer& MeshBuffer::operator=(MeshBuffer&& other) noexcept {
  if (this != &other) {
    release();
    mesh_ = other.mesh_;
    address_ = other.address_;
    bytes_ = other.bytes_;
    reserved_bytes_ = other.reserved_bytes_;
    label_ = std::move(other.label_);
    held_by_commands_ = other.held_by_commands_;
    allocated_ = std::exchange(other.allocated_, false);
  }
  return *this;
}

MeshBuffer::~MeshBuffer() {
  release();
}

void MeshBuffer::release() noexcept {
  if (!std::exchange(allocated_, false)) {
    return;
  }
  const ByteRange range = {address_.offset, reserved_bytes_};
  if (held_by_commands_) {
    mesh_.core().ledger().free(address_.space, range, label_,
                               detail::allocator_devices(mesh_.view()));
  } else {
    mesh_.core().free_in_order(mesh_.view(), address_.space, range, label_);
  }
}

void MeshBuffer::deallocate() {
  address();  // throws if it was freed before
  release();
}

DeviceAddress MeshBuffer::address() const {
  if (!allocated_) {
    throw Error(ErrorCode::deallocated,
                fmt::format("buffer \"{}\" was freed before: allocate it again, or keep it longer",
                            label_));
  }
  return address_;
}

}  // namespace tilemesh
