#include "compiler/passes/graph_index.hpp"

#include <algorithm>

namespace tilemesh {

GraphIndex::GraphIndex(Graph& graph) : entries_(graph.values.size()) {
  for_each_block(graph.body, [&](GraphBlock& block) {
    for (GraphNode& node : block.nodes) {
      add_uses(node.inputs, 1);
      for (const GraphValueId id : node.outputs) {
        if (id != kNoValue) set_producer(id, &node, &block);
      }
    }
    add_uses(block.results, 1);
  });
  for (const GraphOutput& output : graph.outputs)
    add_uses({output.value}, 1);
}

const GraphIndex::Entry& GraphIndex::at(GraphValueId id) const {
  static const Entry none;
  const auto i = static_cast<std::size_t>(id);
  return i < entries_.size() ? entries_[i] : none;
}

GraphNode* GraphIndex::producer(GraphValueId id) const {
  return at(id).producer;
}

const GraphBlock* GraphIndex::block_of(GraphValueId id) const {
  return at(id).block;
}

bool GraphIndex::is_read_only_by(GraphValueId id, const GraphNode& node) const {
  return uses(id) == std::ranges::count(node.inputs, id);
}

void GraphIndex::add_uses(const std::vector<GraphValueId>& ids, int count) {
  for (const GraphValueId id : ids) {
    if (id == kNoValue) continue;
    const auto i = static_cast<std::size_t>(id);
    if (i >= entries_.size()) entries_.resize(i + 1);
    entries_[i].uses += count;
  }
}

void GraphIndex::set_producer(GraphValueId id, GraphNode* node, const GraphBlock* block) {
  const auto i = static_cast<std::size_t>(id);
  if (i >= entries_.size()) entries_.resize(i + 1);
  entries_[i].producer = node;
  entries_[i].block = block;
}

void Replacements::replace(GraphValueId from, GraphValueId to) {
  const auto i = static_cast<std::size_t>(from);
  if (i >= to_.size()) to_.resize(i + 1, kNoValue);
  to_[i] = to;
}

GraphValueId Replacements::resolve(GraphValueId id) const {
  while (static_cast<std::size_t>(id) < to_.size() &&
         to_[static_cast<std::size_t>(id)] != kNoValue) {
    id = to_[static_cast<std::size_t>(id)];
  }
  return id;
}

void Replacements::apply(Graph& graph) const {
  if (empty()) return;
  apply(graph.body);
  for (GraphOutput& output : graph.outputs)
    output.value = resolve(output.value);
}

void Replacements::apply(GraphBlock& block) const {
  for (GraphNode& node : block.nodes) {
    for (GraphValueId& id : node.inputs)
      id = resolve(id);
    for (const auto& inner : node.blocks)
      apply(*inner);
  }
  for (GraphValueId& id : block.results)
    id = resolve(id);
}

}  // namespace tilemesh
