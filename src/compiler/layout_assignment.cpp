#include "compiler/layout_assignment.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/passes/graph_index.hpp"

namespace tilemesh {
namespace {

// Looking further costs time at compile time and says little more.
constexpr std::size_t kMaxReadersAhead = 4;

class LayoutAssigner {
 public:
  LayoutAssigner(PlacedGraph& placed, const Target& target)
      : placed_(placed), graph_(placed.graph), target_(target) {
    const std::size_t count = graph_.values.size();
    readers_.resize(count);
    leaves_.resize(count, false);
    free_.resize(count, false);
  }

  void run() {
    find_readers(graph_.body);
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

  void find_readers(const GraphBlock& block) {
    for (const GraphNode& node : block.nodes) {
      for (const GraphValueId id : node.inputs) {
        if (id == kNoValue) continue;
        if (node.kind == GraphNode::Kind::call) {
          readers_[at(id)].push_back(node);
        } else {
          leaves_[at(id)] = true;
        }
      }
      if (node.kind != GraphNode::Kind::branch) continue;
      find_readers(*node.then_block);
      find_readers(*node.else_block);
    }
    for (const GraphValueId id : block.results)
      leaves_[at(id)] = true;
  }

  template <class AtEnd>
  void assign_block(GraphBlock& block, AtEnd&& at_end) {
    scopes_.emplace_back();
    std::vector<GraphNode> nodes;
    for (GraphNode& node : block.nodes) {
      if (node.kind == GraphNode::Kind::call) assign_call(node, nodes);
      if (node.kind == GraphNode::Kind::branch) assign_branch(node, nodes);
      nodes.push_back(std::move(node));
    }
    at_end(nodes);
    block.nodes = std::move(nodes);
    scopes_.pop_back();
  }

  void assign_branch(GraphNode& node, std::vector<GraphNode>& nodes) {
    node.inputs[0] = in_layout(node.inputs[0], Layout::rows(), nodes);
    for (GraphBlock* block : {node.then_block.get(), node.else_block.get()}) {
      assign_block(*block, [&](std::vector<GraphNode>& inner) {
        for (GraphValueId& id : block->results)
          id = in_layout(id, Layout::rows(), inner);
      });
    }
  }

  void assign_call(GraphNode& node, std::vector<GraphNode>& nodes) {
    const OpCall call = placed_.shard_call(node);
    const std::vector<Candidate> candidates = ask(call, node);
    std::size_t best = candidates.size();
    double best_price = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (!can_be_stored(node, candidates[i])) continue;
      const double price = price_of(node, candidates[i]);
      if (best == candidates.size() || price < best_price) {
        best = i;
        best_price = price;
      }
    }
    TILEMESH_CHECK(best < candidates.size(), "a target has no candidate that can be used");
    const Candidate& chosen = candidates[best];
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

  std::vector<Candidate> ask(const OpCall& call, const GraphNode& node) const {
    std::vector<bool> constant;
    for (const GraphValueId id : node.inputs)
      constant.push_back(id != kNoValue && is_free(id));
    std::vector<Candidate> candidates = target_.candidates(call, constant);
    for (const Candidate& candidate : candidates) {
      TILEMESH_CHECK(candidate.inputs.size() == call.inputs.size() &&
                         candidate.outputs.size() == call.outputs.size(),
                     "a candidate has a wrong number of layouts");
    }
    return candidates;
  }

  // What is stored in the binary can't be in a form that only a backend can make.
  bool can_be_stored(const GraphNode& node, const Candidate& candidate) const {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != kNoValue && graph_.is_constant(node.inputs[i]) &&
          candidate.inputs[i].is_opaque()) {
        return false;
      }
    }
    return true;
  }

  double price_of(const GraphNode& node, const Candidate& candidate) const {
    double price = candidate.seconds;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const GraphValueId id = node.inputs[i];
      if (id == kNoValue || is_free(id) || find_version(id, candidate.inputs[i]) != kNoValue) {
        continue;
      }
      price += target_.convert_seconds(placed_.shard_type(id), candidate.inputs[i]);
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNoValue) price += way_on(node.outputs[i], candidate.outputs[i]);
    }
    return price;
  }

  // The cheapest way for the readers of `id` if it comes in `layout`, each by itself.
  double way_on(GraphValueId id, const Layout& layout) const {
    OperandType type = placed_.shard_type(id);
    type.layout = layout;
    double price = 0;
    if (leaves_[at(id)] && !layout.is_rows()) {
      price += target_.convert_seconds(type, Layout::rows());
    }
    const std::vector<GraphNode>& readers = readers_[at(id)];
    for (std::size_t r = 0; r < std::min(readers.size(), kMaxReadersAhead); ++r) {
      price += reader_price(readers[r], id, type);
    }
    return price;
  }

  double reader_price(const GraphNode& reader, GraphValueId id, const OperandType& type) const {
    OpCall call = placed_.shard_call(reader);
    for (std::size_t i = 0; i < reader.inputs.size(); ++i) {
      if (reader.inputs[i] == id) call.inputs[i] = type;
    }
    double best = std::numeric_limits<double>::infinity();
    for (const Candidate& candidate : ask(call, reader)) {
      if (!can_be_stored(reader, candidate)) continue;
      double price = candidate.seconds;
      for (std::size_t i = 0; i < reader.inputs.size(); ++i) {
        if (reader.inputs[i] == id && !(candidate.inputs[i] == type.layout)) {
          price += target_.convert_seconds(type, candidate.inputs[i]);
        }
      }
      best = std::min(best, price);
    }
    return best;
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
  std::vector<std::vector<GraphNode>> readers_;  // calls, as they were at the start
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
