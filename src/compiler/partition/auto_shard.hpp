#pragma once

#include <vector>

#include "compiler/partition/wishes.hpp"

namespace tilemesh::partition {

/// Cuts the batch, dim 0 of the activations, along these axes. Throws unsupported if no activation
/// has one.
void wish_data(Wishes& wishes, const Graph& graph, const MeshShape& mesh,
               const std::vector<int>& axes);

/// Cuts pairs of matmuls along these axes: a weight in columns wherever what is made of it is cut
/// all the way to products that sum over the cut, whose weights are then cut in rows. An MLP is
/// such a pair, and so is attention, cut by heads. Throws unsupported if it finds none and nothing
/// is cut along the first of these axes already.
/// Source: Shoeybi et al., "Megatron-LM", 2019, for the pairing; how pairs are found is our own.
void wish_tensor(Wishes& wishes, const Graph& graph, const MeshShape& mesh,
                 const std::vector<int>& axes);

}  // namespace tilemesh::partition
