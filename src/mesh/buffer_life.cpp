#include "mesh/buffer_life.hpp"

#include <fmt/format.h>

#include "mesh/mesh_core.hpp"

namespace tilemesh::detail {

BufferLife::BufferLife(const Mesh& mesh, Space space, const ByteRange& range,
                       const MeshBufferOptions& options, std::uint64_t generation)
    : mesh_(mesh),
      space_(space),
      range_(range),
      label_(options.label),
      held_by_commands_(options.held_by_commands),
      generation_(generation) {}

void BufferLife::throw_freed() const {
  const std::string how =
      freed_at_ ? fmt::format("was freed at {}:{}", freed_at_->file_name(), freed_at_->line())
                : std::string("was freed when its owner ended");
  throw Error(ErrorCode::deallocated,
              fmt::format("buffer \"{}\" {}: allocate it again, or keep it longer", label_, how));
}

bool BufferLife::end(const std::optional<std::source_location>& where) noexcept {
  if (!is_allocated()) {
    return false;
  }
  freed_at_ = where;
  allocated_.store(false, std::memory_order_release);
  let_go();
  return true;
}

std::shared_ptr<const void> BufferLife::reserve() {
  if (!is_allocated()) {
    throw_freed();
  }
  holders_.fetch_add(1, std::memory_order_relaxed);  // the owner is one, so it isn't 0
  return {static_cast<const void*>(this), [life = shared_from_this()](const void*) {
            life->let_go();
          }};
}

void BufferLife::let_go() noexcept {
  if (holders_.fetch_sub(1, std::memory_order_acq_rel) > 1) {
    return;
  }
  MeshCore& core = mesh_.core();
  if (held_by_commands_) {
    core.ledger().free(space_, range_, label_, allocator_devices(mesh_.view()));
  } else {
    core.free_in_order(mesh_.view(), space_, range_, label_);
  }
}

}  // namespace tilemesh::detail
