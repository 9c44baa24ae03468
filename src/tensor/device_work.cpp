#include "tensor/device_work.hpp"

#include "tilemesh/mesh/mesh_queue.hpp"

#include "tensor/shard_io.hpp"

namespace tilemesh::detail {

namespace {

/// Below this a copy on the calling thread is cheaper than waking the devices.
constexpr std::int64_t kInlineBytes = 256 << 10;

}  // namespace

MeshStorage allocate_tensor(const Mesh& mesh, const TensorSpec& spec, const std::string& label,
                            Life life) {
  return std::make_shared<MeshBuffer>(
      MeshBuffer::allocate(mesh, {.bytes_per_device = spec.bytes_per_device(),
                                  .space = spec.space,
                                  .label = label,
                                  .held_by_commands = true,
                                  .temporary = life == Life::temporary}));
}

Event for_each_device(const Mesh& mesh, Space space, std::int64_t bytes, const Event& after,
                      bool in_order, const std::string& label, std::function<void(int)> work) {
  const bool addressable = mesh.device(0).map(space) != nullptr;
  const bool may_go_first = after.ready() && (!in_order || mesh.queue(0).idle());
  if (!addressable || (bytes <= kInlineBytes && may_go_first)) {
    mesh.queue(0).wait(after);
    for (int index = 0; index < mesh.device_count(); ++index) {
      work(index);
    }
    return {};
  }
  return mesh.queue(0).enqueue_host(std::move(work), {.after = {after}, .label = label});
}

Event convert_shards(const MeshStorage& source, const TensorSpec& from, const MeshStorage& target,
                     const TensorSpec& to, const Event& after, bool in_order) {
  return for_each_device(
      target->mesh(), to.space, total_bytes(to), after, in_order,
      "conversion of \"" + target->label() + "\"",
      [source, from, target, to](int index) { convert_shard(*source, from, *target, to, index); });
}

std::int64_t total_bytes(const TensorSpec& spec) {
  return spec.bytes_per_device() * spec.mesh.device_count();
}

}  // namespace tilemesh::detail
