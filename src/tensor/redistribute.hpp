#pragma once

#include <string>

#include "tensor/tensor_state.hpp"

namespace tilemesh::detail {

/// True if both along each mesh axis lie alike; axes of one device don't count.
bool same_placements(const TensorSpec& a, const TensorSpec& b);
/// True unless elements have to go through the host: both meshes are views of the same devices.
bool share_devices(const Mesh& a, const Mesh& b);

/// Moves a tensor from device to device into `target`, which lies as `to` says: the steps of a plan
/// where the mesh stays, one exchange among the devices of both meshes otherwise; with conversions
/// of layout, dtype and space before and after. Counts what devices get from each other. Returns at
/// once. `in_order`: commands enqueued before may still use the target.
Event redistribute(const MeshUse& source, const TensorSpec& from, const MeshStorage& target,
                   const TensorSpec& to, bool in_order, const std::string& label);

}  // namespace tilemesh::detail
