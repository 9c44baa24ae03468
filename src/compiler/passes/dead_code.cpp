#include <algorithm>
#include <vector>

#include "compiler/passes/pass.hpp"

namespace tilemesh::passes {
namespace {

class Sweeper {
 public:
  explicit Sweeper(Graph& graph) : graph_(graph), used_(graph.values.size(), false) {}

  bool run() {
    for (const GraphOutput& output : graph_.outputs)
      use(output.value);
    sweep(graph_.body);
    // Weights that were folded into others would stay in memory.
    for (std::size_t i = 0; i < used_.size(); ++i) {
      if (!used_[i]) graph_.values[i].constant = nullptr;
    }
    return changed_;
  }

 private:
  void use(GraphValueId id) {
    if (id != kNoValue) used_[static_cast<std::size_t>(id)] = true;
  }
  bool is_used(GraphValueId id) const {
    return id != kNoValue && used_[static_cast<std::size_t>(id)];
  }

  static bool may_fail(const GraphBlock& block) {
    return std::ranges::any_of(block.nodes, [](const GraphNode& node) {
      return node.kind == GraphNode::Kind::fail ||
             std::ranges::any_of(node.blocks, [](const auto& inner) { return may_fail(*inner); });
    });
  }

  bool is_needed(const GraphNode& node) const {
    if (node.kind == GraphNode::Kind::fail) return true;
    if (std::ranges::any_of(node.outputs, [&](GraphValueId id) { return is_used(id); }))
      return true;
    return std::ranges::any_of(node.blocks, [](const auto& inner) { return may_fail(*inner); });
  }

  // Backwards, so that whoever reads a value has been met before who makes it.
  void sweep(GraphBlock& block) {
    for (const GraphValueId id : block.results)
      use(id);
    std::vector<GraphNode> kept;
    for (auto node = block.nodes.rbegin(); node != block.nodes.rend(); ++node) {
      if (!is_needed(*node)) {
        changed_ = true;
        continue;
      }
      if (node->kind == GraphNode::Kind::call) drop_optional_outputs(*node);
      if (node->kind == GraphNode::Kind::branch) drop_unused_results(*node);
      for (const auto& inner : node->blocks)
        sweep(*inner);
      for (const GraphValueId id : node->inputs)
        use(id);
      kept.push_back(std::move(*node));
    }
    std::ranges::reverse(kept);
    block.nodes = std::move(kept);
  }

  // Not of ops with any number of outputs, which an attribute counts.
  void drop_optional_outputs(GraphNode& node) {
    if (node.def->max_outputs < 0) return;
    while (node.outputs.size() > static_cast<std::size_t>(node.def->min_outputs) &&
           !is_used(node.outputs.back())) {
      node.outputs.pop_back();
      changed_ = true;
    }
  }

  void drop_unused_results(GraphNode& branch) {
    for (std::size_t i = branch.outputs.size(); i-- > 0;) {
      if (is_used(branch.outputs[i])) continue;
      changed_ = true;
      const auto at = static_cast<std::ptrdiff_t>(i);
      for (const auto& block : branch.blocks) {
        if (i < block->results.size()) block->results.erase(block->results.begin() + at);
      }
      branch.outputs.erase(branch.outputs.begin() + at);
    }
  }

  Graph& graph_;
  std::vector<bool> used_;
  bool changed_ = false;
};

}  // namespace

bool remove_dead_code(Graph& graph) {
  return Sweeper(graph).run();
}

}  // namespace tilemesh::passes
