#pragma once

#include <deque>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/passes/graph_index.hpp"

namespace tilemesh {

/// What a local rewrite works with: it looks at a node and those before it, and changes the node in
/// place, gives its value another name, or puts new nodes before it.
class Rewriter {
 public:
  explicit Rewriter(Graph& graph) : graph_(graph), index_(graph) {}

  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }
  const GraphIndex& index() const { return index_; }

  /// The call that makes a value, if it is one of `op` without an epilogue; null otherwise.
  GraphNode* made_by(GraphValueId id, std::string_view op) const;
  /// The same if only `user` reads the value.
  GraphNode* made_only_for(const GraphNode& user, GraphValueId id, std::string_view op) const;
  const OperandType& type(GraphValueId id) const { return graph_[id].type; }

  /// Turns the current node into another call with the same outputs.
  void become(GraphNode& node, std::string_view op, std::vector<GraphValueId> inputs,
              Attributes attributes = {});
  /// Every reader of `node`'s only output reads `value` instead.
  void replace(const GraphNode& node, GraphValueId value) { replace(node.outputs[0], value); }
  void replace(GraphValueId from, GraphValueId to);
  /// A new call just before the current node; the value that it gives.
  GraphValueId insert(std::string_view op, std::vector<GraphValueId> inputs,
                      Attributes attributes = {});
  GraphValueId constant(std::string_view name, ConstantData data);

 private:
  friend bool rewrite(Graph& graph, bool (*rule)(Rewriter&, GraphNode&));
  struct Insertion {
    GraphBlock* block = nullptr;
    std::size_t before = 0;
    GraphBlock nodes;  // one node
  };
  void apply();

  Graph& graph_;
  GraphIndex index_;
  Replacements replacements_;
  std::deque<Insertion> insertions_;  // stable addresses: they are producers already
  GraphBlock* block_ = nullptr;
  std::size_t position_ = 0;
};

/// Offers every call, in order of execution, to `rule`, which says whether it changed something.
bool rewrite(Graph& graph, bool (*rule)(Rewriter&, GraphNode&));

}  // namespace tilemesh
