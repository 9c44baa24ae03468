#pragma once

#include "tilemesh/mesh/mesh_buffer.hpp"
#include "tilemesh/types/strided.hpp"
#include "tilemesh/types/tensor_spec.hpp"

namespace tilemesh::detail {

/// Fills the shard of device `index` from the elements of the global shape: cuts it out, converts,
/// packs. Touches only that device's part of the buffer.
void write_shard(const MeshBufferView& buffer, const TensorSpec& spec, int index,
                 const ConstStridedView& global);

/// Puts the global tensor together from its shards. The buffer's contents must be complete. Throws
/// unsupported for a partial tensor.
void read_shards(const MeshBufferView& buffer, const TensorSpec& spec, const StridedView& global);

/// Changes layout, dtype or space of every device's shard; same shape and placements.
void convert_shard(const MeshBufferView& source, const TensorSpec& from,
                   const MeshBufferView& target, const TensorSpec& to, int index);

}  // namespace tilemesh::detail
