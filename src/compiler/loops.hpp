#pragma once

#include <vector>

#include "compiler/placed_graph.hpp"

namespace tilemesh {

// Where the values that a loop carries may lie. Of the body as it is flattened: in order.

/// For each result of a loop's body: true if it may be made in the place of the value that is
/// carried there, since that isn't read any more when its maker runs.
std::vector<bool> results_in_place(const PlacedGraph& placed, const GraphBlock& body);

/// For each result: true if it shows the bytes of a parameter, as that or as a view of it.
std::vector<bool> shows_parameter(const PlacedGraph& placed, const GraphBlock& body);

}  // namespace tilemesh
