#include <iterator>

#include "compiler/passes/constants.hpp"
#include "compiler/passes/graph_index.hpp"
#include "compiler/passes/pass.hpp"

namespace tilemesh::passes {
namespace {

// The side that is always taken, if that is known and it gives results.
GraphBlock* known_side(const Graph& graph, const GraphNode& node) {
  if (node.kind != GraphNode::Kind::branch) return nullptr;
  const std::optional<double> condition = splat(graph, node.inputs[0]);
  if (!condition) return nullptr;
  GraphBlock* side = node.blocks[*condition != 0 ? 0 : 1].get();
  return side->results.size() == node.outputs.size() ? side : nullptr;
}

bool inline_block(const Graph& graph, GraphBlock& block, Replacements& replacements) {
  bool changed = false;
  std::vector<GraphNode> nodes;
  for (GraphNode& node : block.nodes) {
    for (const auto& inner : node.blocks)
      changed = inline_block(graph, *inner, replacements) || changed;
    GraphBlock* side = known_side(graph, node);
    if (side == nullptr) {
      nodes.push_back(std::move(node));
      continue;
    }
    changed = true;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      replacements.replace(node.outputs[i], side->results[i]);
    }
    std::ranges::move(side->nodes, std::back_inserter(nodes));
  }
  block.nodes = std::move(nodes);
  return changed;
}

}  // namespace

bool inline_known_branches(Graph& graph) {
  Replacements replacements;
  const bool changed = inline_block(graph, graph.body, replacements);
  replacements.apply(graph);
  return changed;
}

}  // namespace tilemesh::passes
