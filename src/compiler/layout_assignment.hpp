#pragma once

#include "tilemesh/ops/target.hpp"

#include "compiler/placed_graph.hpp"

namespace tilemesh {

/// Chooses an implementation and layouts for every call among the target's candidates, and inserts
/// `convert` where a value is wanted in another layout than it has; a value that was converted once
/// is used again. Inputs and outputs keep the layouts that they came with, but for parameters in
/// rows, which take the layout of their first reader. Constants are stored as they are wanted.
/// Calls between branches are decided together (search_layouts); branches give rows.
void assign_layouts(PlacedGraph& placed, const Target& target);

}  // namespace tilemesh
