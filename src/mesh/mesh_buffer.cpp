#include "tilemesh/mesh/mesh_buffer.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "mesh/buffer_life.hpp"
#include "mesh/mesh_core.hpp"

namespace tilemesh {

namespace {

void check(const MeshBufferOptions& options) {
  if (options.bytes_per_device < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("buffer \"{}\" asks for {} bytes: a size can't be negative",
                            options.label, options.bytes_per_device));
  }
  if (options.alignment <= 0 || (options.alignment & (options.alignment - 1)) != 0) {
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

MeshBufferView::MeshBufferView(Mesh mesh, std::shared_ptr<detail::BufferLife> life,
                               std::int64_t offset, std::int64_t bytes)
    : mesh_(std::move(mesh)), life_(std::move(life)), offset_(offset), bytes_(bytes) {}

detail::BufferLife& MeshBufferView::checked() const {
  if (life_ == nullptr) {
    throw Error(ErrorCode::deallocated,
                "a buffer that was moved from is used: use the one it was moved to");
  }
  return *life_;
}

MeshBufferView MeshBufferView::slice(std::int64_t offset, std::int64_t bytes) const {
  checked().address();
  if (offset < 0 || bytes < 0 || offset > bytes_ || bytes > bytes_ - offset) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} bytes at offset {} are outside of the {} bytes per device of "
                            "buffer \"{}\"",
                            bytes, offset, bytes_, label()));
  }
  return {mesh_, life_, offset_ + offset, bytes};
}

MeshBufferView MeshBufferView::at(const MeshRange& range) const {
  checked().address();
  return {mesh_.submesh(range), life_, offset_, bytes_};
}

MeshBufferView MeshBufferView::on(const Mesh& mesh) const {
  checked().address();
  if (&mesh.core() != &mesh_.core() || !mesh_.view().contains(mesh.view())) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("buffer \"{}\" lies on {} devices of mesh {}, and not on all of the {} "
                            "of the view {}",
                            label(), mesh_.device_count(), mesh_.shape().to_string(),
                            mesh.device_count(), mesh.shape().to_string()));
  }
  return {mesh, life_, offset_, bytes_};
}

bool MeshBufferView::is_allocated() const {
  return life_ != nullptr && life_->is_allocated();
}

DeviceAddress MeshBufferView::address() const {
  DeviceAddress address = checked().address();
  address.offset += offset_;
  return address;
}

Space MeshBufferView::space() const {
  return checked().space();
}

const std::string& MeshBufferView::label() const {
  static const std::string kMovedFrom = "moved from";
  return life_ == nullptr ? kMovedFrom : life_->label();
}

std::uint64_t MeshBufferView::generation() const {
  return life_ == nullptr ? 0 : life_->generation();
}

std::shared_ptr<const void> MeshBufferView::reserve() const {
  return checked().reserve();
}

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
  bool drained = true;
  if (!range) {
    drained = core.drain(mesh.view(), core.shortage_timeout());
    range = attempt();
  }
  if (!range) {
    std::string text = core.ledger().describe_shortage(
        options.space, options.bytes_per_device, options.label, devices,
        devices == nullptr ? "" : "submesh " + mesh.shape().to_string());
    if (!drained) {
      text += fmt::format(
          "; commands that may hold some were still pending after {}",
          std::chrono::duration_cast<std::chrono::milliseconds>(core.shortage_timeout()));
    }
    throw Error(ErrorCode::out_of_memory, text);
  }
  MeshBuffer buffer(mesh,
                    std::make_shared<detail::BufferLife>(mesh, options.space, *range, options,
                                                         core.next_generation()),
                    0, options.bytes_per_device);
  for (const int device : mesh.view().devices) {
    core.device(device).commit({options.space, range->offset}, options.bytes_per_device);
  }
  return buffer;
}

MeshBuffer::MeshBuffer(MeshBuffer&& other) noexcept
    : MeshBufferView(other.mesh_, std::move(other.life_), other.offset_, other.bytes_) {}

MeshBuffer& MeshBuffer::operator=(MeshBuffer&& other) noexcept {
  if (this != &other) {
    release();
    mesh_ = other.mesh_;
    life_ = std::move(other.life_);
    offset_ = other.offset_;
    bytes_ = other.bytes_;
  }
  return *this;
}

MeshBuffer::~MeshBuffer() {
  release();
}

void MeshBuffer::release() noexcept {
  if (life_ != nullptr) {
    life_->end(std::nullopt);
  }
}

void MeshBuffer::deallocate(std::source_location where) {
  if (!checked().end(where)) {
    life_->throw_freed();
  }
}

}  // namespace tilemesh
