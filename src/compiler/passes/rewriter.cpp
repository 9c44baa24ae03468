#include "compiler/passes/rewriter.hpp"

#include <algorithm>
#include <iterator>

namespace tilemesh {

GraphNode* Rewriter::made_by(GraphValueId id, std::string_view op) const {
  if (id == kNoValue) return nullptr;
  GraphNode* node = index_.producer(replacements_.resolve(id));
  const bool is_op = node != nullptr && node->kind == GraphNode::Kind::call &&
                     node->def->name == op && node->epilogue.empty();
  return is_op ? node : nullptr;
}

GraphNode* Rewriter::made_only_for(const GraphNode& user, GraphValueId id,
                                   std::string_view op) const {
  GraphNode* node = made_by(id, op);
  return node != nullptr && index_.is_read_only_by(id, user) &&
                 index_.block_of(id) == index_.block_of(user.outputs[0])
             ? node
             : nullptr;
}

void Rewriter::become(GraphNode& node, std::string_view op, std::vector<GraphValueId> inputs,
                      Attributes attributes) {
  index_.add_uses(node.inputs, -1);
  index_.add_uses(inputs, 1);
  node.def = &get_op(op);
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  graph_.canonicalise(node);
}

void Rewriter::replace(GraphValueId from, GraphValueId to) {
  for (int i = index_.uses(from); i > 0; --i)
    index_.add_uses({to}, 1);
  replacements_.replace(from, to);
}

GraphValueId Rewriter::insert(std::string_view op, std::vector<GraphValueId> inputs,
                              Attributes attributes) {
  GraphNode node;
  node.def = &get_op(op);
  node.attributes = std::move(attributes);
  node.name = block_->nodes[position_].name;
  index_.add_uses(inputs, 1);
  node.inputs = std::move(inputs);
  Insertion& insertion = insertions_.emplace_back();
  insertion.block = block_;
  insertion.before = position_;
  const GraphValueId id = graph_.append(insertion.nodes, std::move(node))[0];
  index_.set_producer(id, &insertion.nodes.nodes[0], block_);
  return id;
}

GraphValueId Rewriter::constant(std::string_view name, ConstantData data) {
  return graph_.add_constant(std::string(name), std::move(data));
}

void Rewriter::apply() {
  // From the back, so that earlier positions stay right.
  std::ranges::stable_sort(insertions_, {}, &Insertion::before);
  while (!insertions_.empty()) {
    Insertion& last = insertions_.back();
    auto& nodes = last.block->nodes;
    nodes.insert(nodes.begin() + static_cast<std::ptrdiff_t>(last.before),
                 std::move(last.nodes.nodes[0]));
    insertions_.pop_back();
  }
  replacements_.apply(graph_);
}

bool rewrite(Graph& graph, bool (*rule)(Rewriter&, GraphNode&)) {
  Rewriter rewriter(graph);
  bool changed = false;
  for_each_block(graph.body, [&](GraphBlock& block) {
    for (std::size_t i = 0; i < block.nodes.size(); ++i) {
      GraphNode& node = block.nodes[i];
      rewriter.block_ = &block;
      rewriter.position_ = i;
      if (node.kind != GraphNode::Kind::call) continue;
      for (GraphValueId& id : node.inputs)
        id = rewriter.replacements_.resolve(id);
      changed = rule(rewriter, node) || changed;
    }
  });
  rewriter.apply();
  return changed;
}

}  // namespace tilemesh
