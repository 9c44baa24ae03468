#pragma once

#include "compiler/partition/wishes.hpp"
#include "compiler/placed_graph.hpp"

namespace tilemesh::partition {

/// What is said of a graph, by its own inputs and outputs, by rules and by `--auto`, and what
/// follows from it. Throws invalid_argument for what can't be, unsupported for a rule whose value
/// the simplifications have folded away.
Wishes make_wishes(const Graph& graph, const MeshShape& mesh, const ShardWishes& said);

}  // namespace tilemesh::partition
