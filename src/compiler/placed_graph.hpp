#pragma once

#include <vector>

#include "tilemesh/compiler/graph.hpp"

namespace tilemesh {

/// A graph whose values have placements on a mesh: between the passes and the program. The types of
/// its values are still global; their layouts are those of shards.
struct PlacedGraph {
  Graph graph;
  MeshShape mesh;
  std::vector<Placements> placements;  ///< by value; values past the end are replicated

  const Placements& placement(GraphValueId id) const;
  /// A new value that lies like `like`.
  GraphValueId add_value(std::string name, OperandType type, GraphValueId like);
  /// The value's full description, in `space`.
  TensorSpec spec(GraphValueId id, Space space = Space::dram) const;
  /// What one device holds of a value.
  OperandType shard_type(GraphValueId id) const;
  /// The node on one device's shards, in the values' layouts.
  OpCall shard_call(const GraphNode& node) const;
};

/// Cuts inputs as `GraphInput::placements` say and follows the cuts through the ops by their
/// factors; outputs get the placements that follow. Throws unsupported, naming the op and why,
/// where an op can't run on cut values.
PlacedGraph place(Graph graph, const MeshShape& mesh);

}  // namespace tilemesh
