#pragma once

#include <cstddef>
#include <vector>

#include "tilemesh/compiler/graph.hpp"

namespace tilemesh {

/// Calls `visit` on every block, outer before inner, in order of execution.
template <class Visitor>
void for_each_block(GraphBlock& block, Visitor&& visit) {
  visit(block);
  for (GraphNode& node : block.nodes) {
    for (const auto& inner : node.blocks)
      for_each_block(*inner, visit);
  }
}

template <class Visitor>
void for_each_node(Graph& graph, Visitor&& visit) {
  for_each_block(graph.body, [&](GraphBlock& block) {
    for (GraphNode& node : block.nodes)
      visit(node);
  });
}

/// Who makes every value, and how often it is read. Right for the graph as it was when the index
/// was made; node addresses hold until a block's list changes.
class GraphIndex {
 public:
  explicit GraphIndex(Graph& graph);

  /// Null for inputs and constants.
  GraphNode* producer(GraphValueId id) const;
  /// The block that the producer stands in.
  const GraphBlock* block_of(GraphValueId id) const;
  /// Reads by nodes, block results and outputs.
  int uses(GraphValueId id) const { return at(id).uses; }
  /// True if only `node` reads the value.
  bool is_read_only_by(GraphValueId id, const GraphNode& node) const;
  void add_uses(const std::vector<GraphValueId>& ids, int count);
  void set_producer(GraphValueId id, GraphNode* node, const GraphBlock* block);

 private:
  struct Entry {
    GraphNode* producer = nullptr;
    const GraphBlock* block = nullptr;
    int uses = 0;
  };
  const Entry& at(GraphValueId id) const;
  std::vector<Entry> entries_;
};

/// Values that stand for other values, applied to a whole graph at once.
class Replacements {
 public:
  bool empty() const { return to_.empty(); }
  void replace(GraphValueId from, GraphValueId to);
  GraphValueId resolve(GraphValueId id) const;
  void apply(Graph& graph) const;

 private:
  void apply(GraphBlock& block) const;
  std::vector<GraphValueId> to_;  // by value; kNoValue: itself
};

}  // namespace tilemesh
