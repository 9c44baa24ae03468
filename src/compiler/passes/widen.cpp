#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/passes/graph_index.hpp"
#include "compiler/passes/pass.hpp"

namespace tilemesh::passes {
namespace {

// Ops that give elements of their inputs, besides those whose partial rule says so.
constexpr std::array<std::string_view, 13> kMovements = {"depth_to_space",
                                                         "gather",
                                                         "gather_elements",
                                                         "gather_nd",
                                                         "pad",
                                                         "reshard",
                                                         "reverse_sequence",
                                                         "scatter_elements",
                                                         "scatter_nd",
                                                         "space_to_depth",
                                                         "tile",
                                                         "trilu",
                                                         "where"};

bool moves_alone(const OpDef& op) {
  return op.is_view || op.partial == PartialRule::moves ||
         std::ranges::find(kMovements, op.name) != kMovements.end();
}

// Gives every result of arithmetic that the target does in a wider type a twin of that type, which
// the ops behind it read. A cast makes the written value of the twin; most are read by nobody in
// the end, and go.
class Widener {
 public:
  Widener(Graph& graph, const Target& target) : graph_(graph), target_(target) {}

  bool run() {
    run_block(graph_.body);
    return changed_;
  }

 private:
  DType wide(DType dtype) const { return target_.arithmetic_type(dtype); }
  bool is_narrow(GraphValueId id) const {
    return id != kNoValue && wide(graph_[id].type.dtype) != graph_[id].type.dtype;
  }

  GraphValueId twin(GraphValueId id) const {
    for (const Twins& scope : scopes_) {
      if (const auto found = scope.find(id); found != scope.end()) return found->second;
    }
    return kNoValue;
  }

  GraphValueId twin_of(GraphValueId id, GraphBlock& block) {
    if (const GraphValueId known = twin(id); known != kNoValue) return known;
    const GraphValueId made = cast(id, wide(graph_[id].type.dtype), block);
    scopes_.back()[id] = made;
    return made;
  }

  GraphValueId cast(GraphValueId id, DType to, GraphBlock& block) {
    GraphNode node;
    node.def = &get_op("cast");
    node.name = graph_[id].name;
    node.attributes = {{"to", static_cast<std::int64_t>(to)}};
    node.inputs = {id};
    return graph_.append(block, std::move(node))[0];
  }

  void run_block(GraphBlock& block) {
    scopes_.emplace_back();
    GraphBlock wider;
    for (GraphNode& node : block.nodes) {
      for (const auto& inner : node.blocks)
        run_block(*inner);
      if (node.kind != GraphNode::Kind::call || !widen(node, wider)) {
        wider.nodes.push_back(std::move(node));
      }
    }
    block.nodes = std::move(wider.nodes);
    scopes_.pop_back();
  }

  // Puts the node's wide form, and casts around it, into `block`; false if it has none.
  bool widen(const GraphNode& node, GraphBlock& block) {
    const auto narrow = [&](GraphValueId id) {
      return is_narrow(id);
    };
    const bool reads = std::ranges::any_of(node.inputs, narrow);
    const bool has_twin = std::ranges::any_of(
        node.inputs, [&](GraphValueId id) { return id != kNoValue && twin(id) != kNoValue; });
    // What only moves elements stays with the type that they lie in. A cast to the wide type takes
    // the value as it was computed, one to another type as it was written.
    if (node.def->name == "cast") {
      const DType to = graph_[node.outputs[0]].type.dtype;
      if (!has_twin || to != wide(graph_[node.inputs[0]].type.dtype)) return false;
    } else if (moves_alone(*node.def) ? !has_twin : !reads) {
      return false;
    }
    GraphNode twin_node = node;
    for (GraphValueId& id : twin_node.inputs) {
      if (is_narrow(id)) id = twin_of(id, block);
    }
    const std::optional<std::vector<OperandType>> types = types_of(twin_node, node);
    if (!types) return false;
    put(node, std::move(twin_node), *types, block);
    changed_ = true;
    return true;
  }

  // Of the outputs of the wide form, if they are what the graph has, or wider.
  std::optional<std::vector<OperandType>> types_of(const GraphNode& twin_node,
                                                   const GraphNode& node) const {
    OpCall call = graph_.call_of(twin_node);
    try {
      infer_outputs(call);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::internal) throw;
      return std::nullopt;  // the op wants this type
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      const OperandType& had = graph_[node.outputs[i]].type;
      const OperandType& has = call.outputs.at(i);
      const bool fits = has.dtype == had.dtype || has.dtype == wide(had.dtype);
      if (!fits || !(has.shape == had.shape)) return std::nullopt;
    }
    return std::move(call.outputs);
  }

  void put(const GraphNode& node, GraphNode twin_node, const std::vector<OperandType>& types,
           GraphBlock& block) {
    std::vector<std::pair<GraphValueId, GraphValueId>> rounded;  // from, to
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const GraphValueId id = node.outputs[i];
      if (id == kNoValue || types[i].dtype == graph_[id].type.dtype) continue;
      const GraphValueId made = graph_.add_value(graph_[id].name, types[i]);
      twin_node.outputs[i] = made;
      scopes_.back()[id] = made;
      rounded.emplace_back(made, id);
    }
    block.nodes.push_back(std::move(twin_node));
    for (const auto& [from, to] : rounded) {
      cast(from, graph_[to].type.dtype, block);
      block.nodes.back().outputs = {to};
    }
  }

  using Twins = std::unordered_map<GraphValueId, GraphValueId>;
  Graph& graph_;
  const Target& target_;
  std::vector<Twins> scopes_;  // of the block at hand and those around it
  bool changed_ = false;
};

}  // namespace

bool widen_arithmetic(Graph& graph, const Target& target) {
  return Widener(graph, target).run();
}

}  // namespace tilemesh::passes
