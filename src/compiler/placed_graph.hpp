#pragma once

#include <string>
#include <vector>

#include "tilemesh/compiler/compile.hpp"
#include "tilemesh/compiler/graph.hpp"

namespace tilemesh {

/// A graph whose values have placements on a mesh: between the passes and the program. The types of
/// its values are still global; their layouts are those of shards. Where a value is wanted in
/// another placement there is a `reshard` node.
struct PlacedGraph {
  Graph graph;
  MeshShape mesh;

  const Placements& placement(GraphValueId id) const { return graph[id].placements; }
  /// A new value that lies like `like`.
  GraphValueId add_value(std::string name, OperandType type, GraphValueId like);
  /// The value's full description, in `space`.
  TensorSpec spec(GraphValueId id, Space space = Space::dram) const;
  /// What one device holds of a value.
  OperandType shard_type(GraphValueId id) const;
  /// The node on one device's shards, in the values' layouts.
  OpCall shard_call(const GraphNode& node) const;
};

/// What was said of placements besides those of the graph's own inputs and outputs.
struct ShardWishes {
  std::vector<ShardRule> rules;
  std::vector<AutoShard> automatic;
};

/// Decides how every value lies, from what is said of some: lets wishes spread through the ops'
/// factors, chooses for each op in order what moves the fewest bytes, and inserts `reshard` nodes
/// as late and as seldom as that allows. Constants become shards where shards are read. Throws
/// invalid_argument for wishes that can't be, not_found for names that nothing has.
PlacedGraph partition_graph(Graph graph, const MeshShape& mesh, const ShardWishes& wishes = {});

}  // namespace tilemesh
