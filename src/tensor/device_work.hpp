#pragma once

#include <functional>
#include <string>

#include "tensor/tensor_state.hpp"

namespace tilemesh::detail {

enum class Life : std::uint8_t { lasting, temporary };

/// Storage for a tensor of this spec; whoever enqueues commands on it holds it until they have
/// ended.
MeshStorage allocate_tensor(const Mesh& mesh, const TensorSpec& spec, const std::string& label,
                            Life life = Life::lasting);

/// Runs `work(device index)` for every device: on the calling thread if the work is small or the
/// host can't address the devices' memory (it then goes through the queue by itself), else on the
/// devices' threads in the queue's order. `bytes` is what all devices together write; `in_order`:
/// commands enqueued before must end first.
Event for_each_device(const Mesh& mesh, Space space, std::int64_t bytes, const Event& after,
                      bool in_order, const std::string& label, std::function<void(int)> work);

/// Another layout, dtype or space of the same shards, on the same devices.
Event convert_shards(const MeshStorage& source, const TensorSpec& from, const MeshStorage& target,
                     const TensorSpec& to, const Event& after, bool in_order);

/// Bytes that all devices together allocate.
std::int64_t total_bytes(const TensorSpec& spec);

}  // namespace tilemesh::detail
