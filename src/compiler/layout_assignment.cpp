#include "compiler/layout_assignment.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/layout_search.hpp"

namespace tilemesh {
namespace {

class LayoutAssigner {
 public:
  LayoutAssigner(PlacedGraph& placed, const Target& target)
      : placed_(placed), graph_(placed.graph), target_(target) {
    const std::size_t count = graph_.values.size();
    leaves_.resize(count, false);
    free_.resize(count, false);
  }

  void run() {
    find_leaves(graph_.body);
    for (const GraphOutput& output : graph_.outputs)
      leaves_[at(output.value)] = true;
    for (const GraphInput& input : graph_.inputs) {
      free_[at(input.value)] =
          input.kind == InputKind::parameter && graph_[input.value].type.layout.is_rows();
    }
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      if (graph_.values[i].constant) free_[i] = true;
    }
    assign_block(graph_.body, [&](std::vector<GraphNode>& nodes) {
      for (GraphOutput& output : graph_.outputs) {
        const Layout wanted =
            output.alias < 0
                ? Layout::rows()
                : graph_[graph_.inputs[static_cast<std::size_t>(output.alias)].value].type.layout;
        output.value = in_layout(output.value, wanted, nodes);
      }
    });
  }

 private:
  // A value in other layouts: all that there are in the blocks at hand.
  struct Version {
    Layout layout;
    GraphValueId id = kNoValue;
  };
  using Versions = std::unordered_map<GraphValueId, std::vector<Version>>;

  static std::size_t at(GraphValueId id) { return static_cast<std::size_t>(id); }
  bool is_free(GraphValueId id) const { return at(id) < free_.size() && free_[at(id)]; }

  void find_leaves(const GraphBlock& block) {
    for (const GraphNode& node : block.nodes) {
      if (node.blocks.empty()) continue;
      for (const GraphValueId id : node.inputs) {
        if (id != kNoValue) leaves_[at(id)] = true;
      }
      for (const auto& inner : node.blocks)
        find_leaves(*inner);
    }
    for (const GraphValueId id : block.results)
      leaves_[at(id)] = true;
  }

  // The last place in a block's list where each value is read, inside of branches included.
  using LastUses = std::vector<std::size_t>;
  static void find_last_uses(const GraphBlock& block, std::size_t place_of_all, LastUses& uses) {
    for (std::size_t i = 0; i < block.nodes.size(); ++i) {
      const GraphNode& node = block.nodes[i];
      const std::size_t place = std::max(place_of_all, i);
      for (const GraphValueId id : node.inputs) {
        if (id != kNoValue) uses[at(id)] = std::max(uses[at(id)], place);
      }
      for (const auto& inner : node.blocks)
        find_last_uses(*inner, place, uses);
    }
  }

  template <class AtEnd>
  void assign_block(GraphBlock& block, AtEnd&& at_end) {
    scopes_.emplace_back();
    LastUses uses(graph_.values.size(), 0);
    find_last_uses(block, 0, uses);
    std::vector<GraphNode> nodes;
    for (std::size_t i = 0; i < block.nodes.size();) {
      GraphNode& node = block.nodes[i];
      if (node.kind == GraphNode::Kind::call) {
        i = assign_run(block, i, uses, nodes);
        continue;
      }
      assign_blocks(node, nodes);
      nodes.push_back(std::move(node));
      ++i;
    }
    at_end(nodes);
    block.nodes = std::move(nodes);
    scopes_.pop_back();
  }

  // All calls up to the next branch or loop; gives the place behind them.
  std::size_t assign_run(GraphBlock& block, std::size_t first, const LastUses& uses,
                         std::vector<GraphNode>& nodes) {
    std::size_t end = first;
    while (end < block.nodes.size() && block.nodes[end].kind == GraphNode::Kind::call)
      ++end;
    const LayoutProblem problem{placed_,
                                target_,
                                std::span(block.nodes).subspan(first, end - first),
                                [&](GraphValueId id) { return is_free(id); },
                                [&](GraphValueId id) { return layouts_of(id); },
                                [&](GraphValueId id) {
                                  const std::size_t use = uses[at(id)];
                                  return use < first ? 0 : std::min(use, end) - first;
                                },
                                [&](GraphValueId id) {
                                  return leaves_[at(id)];
                                }};
    const std::vector<Candidate> chosen = search_layouts(problem);
    for (std::size_t i = first; i < end; ++i) {
      assign_call(block.nodes[i], chosen[i - first], nodes);
      nodes.push_back(std::move(block.nodes[i]));
    }
    return end;
  }

  // What goes into a branch or a loop and comes out of it is in rows.
  void assign_blocks(GraphNode& node, std::vector<GraphNode>& nodes) {
    for (GraphValueId& id : node.inputs) {
      if (id != kNoValue) id = in_layout(id, Layout::rows(), nodes);
    }
    for (const auto& block : node.blocks) {
      assign_block(*block, [&](std::vector<GraphNode>& inner) {
        for (GraphValueId& id : block->results)
          id = in_layout(id, Layout::rows(), inner);
      });
    }
  }

  void assign_call(GraphNode& node, const Candidate& chosen, std::vector<GraphNode>& nodes) {
    node.implementation = chosen.implementation;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != kNoValue) {
        node.inputs[i] = in_layout(node.inputs[i], chosen.inputs[i], nodes);
      }
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNoValue) graph_[node.outputs[i]].type.layout = chosen.outputs[i];
    }
  }

  std::vector<Layout> layouts_of(GraphValueId id) const {
    const GraphValueId first = original(id);
    std::vector<Layout> layouts{graph_[id].type.layout};
    if (first != id) layouts.push_back(graph_[first].type.layout);
    for (const Versions& scope : scopes_) {
      const auto found = scope.find(first);
      if (found == scope.end()) continue;
      for (const Version& version : found->second)
        layouts.push_back(version.layout);
    }
    return layouts;
  }

  // The original of a value: converted values stand for what they were made from.
  GraphValueId original(GraphValueId id) const {
    const auto it = original_.find(id);
    return it == original_.end() ? id : it->second;
  }

  GraphValueId find_version(GraphValueId id, const Layout& layout) const {
    const GraphValueId first = original(id);
    if (!is_free(first) && graph_[first].type.layout == layout) return first;
    for (const Versions& scope : scopes_) {
      const auto found = scope.find(first);
      if (found == scope.end()) continue;
      for (const Version& version : found->second) {
        if (version.layout == layout) return version.id;
      }
    }
    return kNoValue;
  }

  // The value in `layout`: as it is, converted before, or converted by a new node at the end of
  // `nodes`.
  GraphValueId in_layout(GraphValueId id, const Layout& layout, std::vector<GraphNode>& nodes) {
    if (is_free(id)) return settle(id, layout);
    if (const GraphValueId found = find_version(id, layout); found != kNoValue) return found;
    const GraphValueId first = original(id);
    OperandType type = graph_[id].type;
    type.layout = layout;
    const GraphValueId converted = placed_.add_value(graph_[first].name, type, first);
    GraphNode node;
    node.def = &get_op("convert");
    node.name = graph_[first].name;
    node.implementation = "convert";
    node.inputs = {id};
    node.outputs = {converted};
    graph_.canonicalise(node);
    nodes.push_back(std::move(node));
    original_[converted] = first;
    scopes_.back()[first].push_back({layout, converted});
    return converted;
  }

  // A parameter takes its first reader's layout; a constant is stored once for each layout.
  GraphValueId settle(GraphValueId id, const Layout& layout) {
    if (!graph_.is_constant(id)) {
      free_[at(id)] = false;
      graph_[id].type.layout = layout;
      return id;
    }
    if (layout.is_rows()) return id;
    for (const Version& version : stored_[id]) {
      if (version.layout == layout) return version.id;
    }
    GraphValue copy = graph_[id];
    copy.type.layout = layout;
    const GraphValueId stored = placed_.add_value(copy.name, copy.type, id);
    graph_[stored].constant = copy.constant;
    stored_[id].push_back({layout, stored});
    return stored;
  }

  PlacedGraph& placed_;
  Graph& graph_;
  const Target& target_;
  std::vector<bool> leaves_;  // values that are wanted in rows: outputs, results, conditions
  std::vector<bool> free_;    // values whose layout costs nothing
  std::vector<Versions> scopes_;
  Versions stored_;
  std::unordered_map<GraphValueId, GraphValueId> original_;
};

}  // namespace

void assign_layouts(PlacedGraph& placed, const Target& target) {
  LayoutAssigner(placed, target).run();
}

}  // namespace tilemesh
