#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "compiler/passes/chain.hpp"
#include "compiler/passes/constants.hpp"
#include "compiler/passes/graph_index.hpp"
#include "compiler/passes/pass.hpp"

namespace tilemesh::passes {
namespace {

// Rebuilds each block in order. A chain first swallows the chains that make its operands, then is
// swallowed by the call that makes one of them, which moves to the chain's place: so all of the
// chain's operands are made before it.
class Fuser {
 public:
  Fuser(Graph& graph, const Target& target) : graph_(graph), target_(target), index_(graph) {}

  bool run() {
    fuse_block(graph_.body);
    return changed_;
  }

 private:
  void fuse_block(GraphBlock& block) {
    for (GraphNode& node : block.nodes) {
      for (const auto& inner : node.blocks)
        fuse_block(*inner);
    }
    done_.clear();
    maker_.clear();
    for (GraphNode& node : block.nodes) {
      std::optional<Chain> chain = reads_parts(node) ? std::nullopt : as_chain(graph_, node);
      if (chain) {
        add_chain(std::move(node), std::move(*chain));
      } else {
        add_node(std::move(node));
      }
    }
    block.nodes.clear();
    for (std::optional<GraphNode>& node : done_) {
      if (node) block.nodes.push_back(std::move(*node));
    }
  }

  // Parts of a sum go through an op by its own rule, and a map has none.
  bool reads_parts(const GraphNode& node) const {
    return std::ranges::any_of(node.inputs, [&](GraphValueId id) {
      return id != kNoValue &&
             std::ranges::any_of(graph_[id].placements, [](const Placement& placement) {
               return placement.kind() == Placement::Kind::partial;
             });
    });
  }

  void add_node(GraphNode node) {
    for (const GraphValueId id : node.outputs) {
      if (id != kNoValue) maker_[id] = done_.size();
    }
    done_.push_back(std::move(node));
  }

  // The node of this block that makes a value; none if it has been swallowed.
  std::optional<GraphNode>* find_maker(GraphValueId id) {
    const auto it = maker_.find(id);
    return it == maker_.end() || !done_[it->second] ? nullptr : &done_[it->second];
  }

  void set_inputs(GraphNode& node, std::vector<GraphValueId> inputs) {
    index_.add_uses(node.inputs, -1);
    index_.add_uses(inputs, 1);
    node.inputs = std::move(inputs);
  }

  // The node that makes `id`, if `node` alone reads it and has its shape: it may be swallowed.
  std::optional<GraphNode>* swallowable(const GraphNode& node, GraphValueId id) {
    if (!index_.is_read_only_by(id, node)) return nullptr;
    if (!(graph_[id].type.shape == graph_[node.outputs[0]].type.shape)) return nullptr;
    std::optional<GraphNode>* maker = find_maker(id);
    const bool is_call = maker != nullptr && (*maker)->kind == GraphNode::Kind::call &&
                         (*maker)->outputs.size() == 1;
    return is_call ? maker : nullptr;
  }

  bool swallow_one(GraphNode& node, Chain& chain) {
    for (const GraphValueId id : chain.operands) {
      std::optional<GraphNode>* maker = swallowable(node, id);
      if (maker == nullptr || (*maker)->def->name != "map") continue;
      Chain both = inline_chain({(*maker)->epilogue.steps, (*maker)->inputs}, chain, id);
      if (both.steps.size() > Chain::kMaxSteps || both.operands.size() > Chain::kMaxOperands) {
        continue;
      }
      set_inputs(**maker, {});
      set_inputs(node, both.operands);
      maker->reset();
      chain = std::move(both);
      return true;
    }
    return false;
  }

  void add_chain(GraphNode node, Chain chain) {
    set_inputs(node, chain.operands);
    while (swallow_one(node, chain))
      changed_ = true;
    if (join_call_before(node, chain)) return;
    become_map(node, std::move(chain));
    add_node(std::move(node));
  }

  void become_map(GraphNode& node, Chain chain) {
    static const OpDef& map = get_op("map");
    changed_ = changed_ || node.def != &map;
    node.def = &map;
    node.attributes = {};
    set_inputs(node, chain.operands);
    node.epilogue.steps = std::move(chain.steps);
  }

  // The epilogue of the latest call among the makers of the chain's operands: the others' results
  // are there by then.
  bool join_call_before(GraphNode& node, const Chain& chain) {
    std::optional<GraphNode>* best = nullptr;
    GraphValueId best_id = kNoValue;
    for (const GraphValueId id : chain.operands) {
      std::optional<GraphNode>* maker = swallowable(node, id);
      if (maker == nullptr || (*maker)->def->name == "map" || (*maker)->def->is_view) continue;
      if ((*maker)->def->max_inputs < 0) continue;
      if (best == nullptr || maker > best) {
        best = maker;
        best_id = id;
      }
    }
    return best != nullptr && join(node, chain, *best, best_id);
  }

  // Moves the front of the chain, as much as the target takes, into the call that makes `id`.
  bool join(GraphNode& node, const Chain& chain, std::optional<GraphNode>& maker, GraphValueId id) {
    GraphNode call = *maker;
    call.inputs.resize(std::max(call.inputs.size(), static_cast<std::size_t>(call.def->max_inputs)),
                       kNoValue);
    const std::size_t base = call.epilogue.steps.size();
    std::size_t taken = 0;
    std::vector<GraphNode> grown;  // the call after each step
    while (taken < chain.steps.size() && grow(call, chain, taken, base, id)) {
      grown.push_back(call);
      ++taken;
    }
    taken = cut_point(chain, id, taken);
    if (taken == 0) return false;
    call = std::move(grown[taken - 1]);
    const std::vector<GraphValueId> inputs = std::exchange(call.inputs, maker->inputs);
    set_inputs(call, inputs);
    maker.reset();
    changed_ = true;
    if (taken == chain.steps.size()) {
      set_inputs(node, {});
      call.outputs = node.outputs;
      add_node(std::move(call));
      return true;
    }
    const GraphValueId middle = graph_.add_value(graph_[id].name, graph_[id].type);
    graph_[middle].placements = graph_[id].placements;
    graph_[middle].reason = graph_[id].reason;
    call.outputs = {middle};
    add_node(std::move(call));
    become_map(node, behind(chain, taken, middle));
    add_node(std::move(node));
    return true;
  }

  // Adds step `at` of the chain to the call's epilogue if the target agrees.
  bool grow(GraphNode& call, const Chain& chain, std::size_t at, std::size_t base,
            GraphValueId id) {
    ExpressionStep step = chain.steps[at];
    std::vector<GraphValueId> inputs = call.inputs;
    const auto own = static_cast<std::size_t>(call.def->max_inputs);
    const OperandType* operand = nullptr;
    for (int i = 0; i < 2; ++i) {
      std::int16_t& arg = step.arguments[static_cast<std::size_t>(i)];
      if (i >= arity(step.fn)) {
        arg = step.arguments[0];
      } else if (arg < ExpressionStep::kOperand) {
        arg = static_cast<std::int16_t>(arg + static_cast<std::int16_t>(base));
      } else if (const GraphValueId value =
                     chain.operands[static_cast<std::size_t>(arg - ExpressionStep::kOperand)];
                 value == id) {
        arg = base == 0 ? ExpressionStep::kResult : static_cast<std::int16_t>(base - 1);
      } else {
        arg = static_cast<std::int16_t>(ExpressionStep::kOperand +
                                        static_cast<int>(operand_index(inputs, value, own)));
        operand = &graph_[value].type;
      }
    }
    if (inputs.size() - own > Chain::kMaxOperands ||
        call.epilogue.steps.size() >= Chain::kMaxSteps) {
      return false;
    }
    if (!target_.can_fuse(graph_.call_of(call), step, operand)) return false;
    call.inputs = std::move(inputs);
    call.epilogue.steps.push_back(step);
    return true;
  }

  Graph& graph_;
  const Target& target_;
  GraphIndex index_;
  std::vector<std::optional<GraphNode>> done_;           // of the block at hand; empty: swallowed
  std::unordered_map<GraphValueId, std::size_t> maker_;  // who in done_ makes a value
  bool changed_ = false;
};

}  // namespace

bool fuse_elementwise(Graph& graph, const Target& target) {
  return Fuser(graph, target).run();
}

}  // namespace tilemesh::passes
