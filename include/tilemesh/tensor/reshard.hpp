#pragma once

#include <span>
#include <string>
#include <vector>

#include "tilemesh/tensor/tensor.hpp"
#include "tilemesh/types/redistribution.hpp"

namespace tilemesh {

/// A tensor (of the host, or of any mesh) on this mesh in dram, row-major, one placement for each
/// mesh axis. Throws invalid_argument for placements that don't fit, and for partial ones: parts
/// come from programs or from_shards.
Tensor distribute(const Tensor& tensor, const Mesh& mesh, const Placements& placements,
                  const std::string& label = "tensor");

/// The tensor in other placements of its mesh, in its own layout, dtype and space, without the
/// host; itself if it lies so already, and a view of it where every device holds what it needs.
/// Returns at once. Throws invalid_argument for a host tensor, unsupported if an axis would become
/// partial.
Tensor reshard(const Tensor& tensor, const Placements& placements);
/// What reshard would do.
ReshardPlan plan_reshard(const Tensor& tensor, const Placements& placements);

/// One tensor of what each device of the mesh holds, in row-major order of the coordinates; the
/// global shape follows from theirs, which have to be those that `placements` give. Partial
/// placements are how parts of a reduction are made. Nothing is copied if the shards are views of
/// one tensor and lie where they belong: the result is then a view of it. Otherwise it is
/// row-major in dram, each shard moving to its device from wherever it is. Throws invalid_argument,
/// naming the coordinate, for a shard of another dtype or shape.
Tensor from_shards(std::span<const Tensor> shards, const Mesh& mesh, const Placements& placements,
                   const std::string& label = "tensor");
/// The same on the host: shards are host tensors, `mesh` says how many there are along each axis,
/// and of what is replicated the first is taken. Not for partial placements.
Tensor from_shards(std::span<const Tensor> shards, const MeshShape& mesh,
                   const Placements& placements);
/// Views of a host tensor, one for each coordinate: what from_shards puts together. They share its
/// memory, which lives as long as any of them. Throws invalid_argument for a tensor of a mesh.
std::vector<Tensor> split(const Tensor& host, const MeshShape& mesh, const Placements& placements);

}  // namespace tilemesh
