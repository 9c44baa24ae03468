#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tilemesh/ops/target.hpp"

#include "compiler/placed_graph.hpp"

namespace tilemesh {

/// A run of calls without branches, and what the search must know of the graph around it.
struct LayoutProblem {
  const PlacedGraph& placed;
  const Target& target;
  std::span<const GraphNode> calls;
  /// Constants and undecided parameters: any layout costs nothing.
  std::function<bool(GraphValueId)> is_free;
  /// The layouts in which a value from before the run is there; the one it was made in first.
  std::function<std::vector<Layout>(GraphValueId)> layouts_before;
  /// The last call of the run that reads a value; calls.size() if something behind the run does.
  std::function<std::size_t(GraphValueId)> last_use;
  /// True if a value made by the run is wanted in rows behind it.
  std::function<bool(GraphValueId)> is_wanted_in_rows;
};

/// One candidate for each call, for the least sum of kernel and conversion times: a dynamic
/// programme along the calls, whose states are the layouts of the values that are still to be read.
/// Only the cheapest states are kept at every call, so where very many values live at once the
/// answer may not be the best one.
std::vector<Candidate> search_layouts(const LayoutProblem& problem);

}  // namespace tilemesh
