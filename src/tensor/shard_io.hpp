#pragma once

#include <optional>

#include "tilemesh/mesh/mesh_buffer.hpp"
#include "tilemesh/types/strided.hpp"
#include "tilemesh/types/tensor_spec.hpp"

namespace tilemesh::detail {

/// Fills the shard of device `index` from the elements of the global shape: cuts it out, converts,
/// packs. Touches only that device's part of the buffer.
void write_shard(const MeshBufferView& buffer, const TensorSpec& spec, int index,
                 const ConstStridedView& global);

/// Fills the shard of device `index` from its own valid elements alone, row-major within `part`.
void write_part(const MeshBufferView& buffer, const TensorSpec& spec, int index,
                const ConstStridedView& part);

/// How the parts that devices hold are put together; none if they hold no parts.
std::optional<ReduceOp> reduced_by(const TensorSpec& spec);
/// Puts the global tensor together from its shards, reducing parts in the order of their
/// coordinates. The buffer's contents must be complete. Throws unsupported for parts of two
/// different reductions.
void read_shards(const MeshBufferView& buffer, const TensorSpec& spec, const StridedView& global);

/// Changes layout, dtype or space of every device's shard; same shape and placements.
void convert_shard(const MeshBufferView& source, const TensorSpec& from,
                   const MeshBufferView& target, const TensorSpec& to, int index);
/// Puts a tensor that lies on one device, which is that of `index`, into the target's shard there.
void place_shard(const MeshBufferView& source, const TensorSpec& from, const MeshBufferView& target,
                 const TensorSpec& to, int index);

}  // namespace tilemesh::detail
