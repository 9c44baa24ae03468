#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/types/redistribution.hpp"

#include "compiler/partition/choice.hpp"
#include "compiler/partition/make_wishes.hpp"
#include "compiler/placed_graph.hpp"

namespace tilemesh {
namespace {

using partition::AxisChoice;
using partition::NodePlan;
using partition::Wishes;

bool is_whole(const Placements& placements) {
  return std::ranges::all_of(placements, [](const Placement& p) { return p.is_replicate(); });
}

// On one device, and within what every device does whole, there is nothing to move.
void drop_reshards(Graph& graph, GraphBlock& block) {
  for (GraphNode& node : block.nodes) {
    for (const auto& inner : node.blocks)
      drop_reshards(graph, *inner);
    if (node.def != nullptr && node.def->name == "reshard") {
      node.def = &get_op("identity");
      graph[node.outputs[0]].placements.clear();
    }
  }
}

class Partitioner {
 public:
  Partitioner(Graph graph, const MeshShape& mesh, const ShardWishes& said)
      : before_(std::move(graph)),
        wishes_(partition::make_wishes(before_, mesh, said)),
        context_{.graph = placed_.graph,
                 .mesh = placed_.mesh,
                 .wishes = wishes_,
                 .placement = [this](GraphValueId id) { return full(placed_.placement(id)); },
                 .cost = [this](GraphValueId id, const Placements& to) { return cost(id, to); },
                 .uses =
                     [this](GraphValueId id) {
                       return uses_[at(id)];
                     }} {
    placed_.graph = before_;
    placed_.mesh = mesh;
    uses_.resize(before_.values.size());
    count_uses(before_.body);
    for (const GraphOutput& output : before_.outputs)
      ++uses_[at(output.value)];
  }

  PlacedGraph run() {
    place_inputs();
    scopes_.emplace_back();
    std::vector<GraphNode> nodes = place_block(before_.body);
    for (std::size_t i = 0; i < graph().outputs.size(); ++i)
      place_output(graph().outputs[i], nodes);
    graph().body.nodes = std::move(nodes);
    return std::move(placed_);
  }

 private:
  struct Version {
    Placements placements;
    std::optional<ReduceOp> fill;
    GraphValueId id = kNoValue;
  };
  using Scope = std::map<GraphValueId, std::vector<Version>>;

  static std::size_t at(GraphValueId id) { return static_cast<std::size_t>(id); }
  Graph& graph() { return placed_.graph; }

  void count_uses(const GraphBlock& block) {
    for (const GraphNode& node : block.nodes) {
      for (const GraphValueId id : node.inputs) {
        if (id != kNoValue) ++uses_[at(id)];
      }
      for (const auto& inner : node.blocks)
        count_uses(*inner);
    }
    for (const GraphValueId id : block.results)
      ++uses_[at(id)];
  }

  /// One placement per axis, though all are replicated.
  Placements full(const Placements& placements) const {
    if (!placements.empty()) return placements;
    Placements result;
    result.resize(static_cast<std::size_t>(placed_.mesh.axes()));
    return result;
  }

  void set(GraphValueId id, const Placements& placements, std::string reason) {
    graph()[id].placements = is_whole(placements) ? Placements() : placements;
    graph()[id].reason = std::move(reason);
  }

  // The placement that was wished for, and who wished it.
  Placements wished(GraphValueId id) const {
    Placements result;
    for (int axis = 0; axis < placed_.mesh.axes(); ++axis) {
      const auto& wish = wishes_.at(id, axis);
      result.push_back(wish ? shard(wish->dim) : replicate());
    }
    return result;
  }

  std::string why(GraphValueId id) const {
    std::vector<std::string> reasons;
    for (int axis = 0; axis < placed_.mesh.axes(); ++axis) {
      if (std::string reason = wishes_.explain(id, axis); !reason.empty()) {
        reasons.push_back(std::move(reason));
      }
    }
    return fmt::format("{}", fmt::join(reasons, "; "));
  }

  void place_inputs() {
    for (GraphInput& input : graph().inputs) {
      Placements placements = wished(input.value);
      for (std::size_t axis = 0; axis < input.placements.size(); ++axis) {
        const Placement& said = input.placements[axis];
        if (said.kind() == Placement::Kind::partial) placements[axis] = said;
      }
      set(input.value, placements, why(input.value));
      input.placements = placed_.placement(input.value);
    }
  }

  double cost(GraphValueId id, const Placements& to) const {
    if (before_.is_constant(id)) {
      // Parts of a reduction can't be made of a constant.
      const bool parts = std::ranges::any_of(
          to, [](const Placement& p) { return p.kind() == Placement::Kind::partial; });
      return parts ? std::numeric_limits<double>::infinity() : 0.0;
    }
    if (find(id, to, std::nullopt) != kNoValue) return 0;
    return partition::reshard_cost(before_[id].type, placed_.mesh, full(placed_.placement(id)), to);
  }

  std::vector<GraphNode> place_block(const GraphBlock& block) {
    std::vector<GraphNode> nodes;
    for (const GraphNode& node : block.nodes) {
      switch (node.kind) {
        case GraphNode::Kind::call: place_call(node, nodes); break;
        case GraphNode::Kind::branch: place_branch(node, nodes); break;
        case GraphNode::Kind::loop: place_loop(node, nodes); break;
        case GraphNode::Kind::fail: nodes.push_back(node); break;
      }
    }
    return nodes;
  }

  void place_call(const GraphNode& node, std::vector<GraphNode>& nodes) {
    if (node.def->name == "reshard") {
      place_reshard(node, nodes);
      return;
    }
    const NodePlan plan = partition::choose(node, context_);
    GraphNode placed = node;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue) continue;
      const auto fill = plan.needs_fill[i] ? std::optional(plan.fills[i]) : std::nullopt;
      placed.inputs[i] = in(node.inputs[i], plan.inputs[i], fill, why_wanted(node, plan, i), nodes);
    }
    const std::size_t maker = nodes.size();
    nodes.push_back(std::move(placed));
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o] == kNoValue) continue;
      set(node.outputs[o], plan.outputs[o], reason_of(node, plan, o));
      honour_annotation(node.outputs[o], maker, nodes);
    }
  }

  // One that the program asks for.
  void place_reshard(const GraphNode& node, std::vector<GraphNode>& nodes) {
    const GraphValueId target = node.outputs[0];
    const std::string reason = fmt::format("\"{}\" asks for it", node.name);
    const GraphValueId source =
        in(node.inputs[0], full(before_[target].placements), std::nullopt, reason, nodes);
    set(target, full(before_[target].placements), reason);
    GraphNode same;
    same.def = &get_op("identity");
    same.name = node.name;
    same.inputs = {source};
    same.outputs = {target};
    nodes.push_back(std::move(same));
  }

  // Why an input isn't taken as it lies.
  std::string why_wanted(const GraphNode& node, const NodePlan& plan, std::size_t i) {
    const std::string who = fmt::format("\"{}\" ({})", node.name, node.def->name);
    for (int axis = 0; axis < placed_.mesh.axes(); ++axis) {
      const auto a = static_cast<std::size_t>(axis);
      const Placement now = full(placed_.placement(node.inputs[i]))[a];
      if (now == plan.inputs[i][a]) continue;
      if (now.kind() == Placement::Kind::partial) {
        return fmt::format("{} can't take its input {} as a {}", who, i, now.to_string());
      }
      const std::vector<int>& dims = wishes_.factors(node).inputs[i];
      if (now.is_shard() && dims[static_cast<std::size_t>(now.dim())] == Factors::kNone) {
        return fmt::format("{} needs all of dim {} of its input {}", who, now.dim(), i);
      }
      return fmt::format("{} wants its input {} as its other operands lie", who, i);
    }
    return fmt::format("{} mustn't see what lies beyond the shards of its input {}", who, i);
  }

  std::string reason_of(const GraphNode& node, const NodePlan& plan, std::size_t output) const {
    const GraphValueId id = node.outputs[output];
    std::vector<std::string> reasons;
    for (int axis = 0; axis < placed_.mesh.axes(); ++axis) {
      const Placement made = plan.outputs[output][static_cast<std::size_t>(axis)];
      if (made.is_replicate()) continue;
      const auto& wish = wishes_.at(id, axis);
      if (made.is_shard() && wish && wish->dim == made.dim()) {
        reasons.push_back(wishes_.explain(id, axis));
      } else if (made.is_shard()) {
        reasons.push_back(fmt::format("shard {} along axis {}: as the inputs of \"{}\" are cut",
                                      made.dim(), axis, node.name));
      } else {
        const bool sums =
            plan.axes[static_cast<std::size_t>(axis)].kind == AxisChoice::Kind::factor;
        reasons.push_back(
            fmt::format("{} along axis {}: \"{}\" {}", made.to_string(), axis, node.name,
                        sums ? "sums over a dim that is cut" : "passes parts of a reduction on"));
      }
    }
    return fmt::format("{}", fmt::join(reasons, "; "));
  }

  // What was said of this very value holds for it from here on, whatever made it.
  void honour_annotation(GraphValueId id, std::size_t maker, std::vector<GraphNode>& nodes) {
    Placements wanted = full(placed_.placement(id));
    bool differs = false;
    for (int axis = 0; axis < placed_.mesh.axes(); ++axis) {
      const auto& wish = wishes_.at(id, axis);
      if (!wish || wish->via != nullptr) continue;
      Placement& own = wanted[static_cast<std::size_t>(axis)];
      if (own == shard(wish->dim)) continue;
      own = shard(wish->dim);
      differs = true;
    }
    if (!differs) return;
    // Readers of `id` find the new version; its maker makes a value of its own.
    const GraphValueId made = add_value(id, placed_.placement(id));
    graph()[made].reason = graph()[id].reason;
    for (GraphValueId& output : nodes[maker].outputs) {
      if (output == id) output = made;
    }
    uses_[at(made)] = 1;
    set(id, wanted, why(id));
    move(made, id, std::nullopt, why(id), nodes);
  }

  // By value: what is given may lie in the list that grows.
  GraphValueId add_value(GraphValueId like, Placements placements) {  // NOLINT
    const GraphValueId id = graph().add_value(graph()[like].name, graph()[like].type);
    graph()[id].placements = is_whole(placements) ? Placements() : placements;
    uses_.resize(graph().values.size());
    return id;
  }

  GraphValueId find(GraphValueId id, const Placements& wanted, std::optional<ReduceOp> fill) const {
    if (!fill && full(placed_.placement(id)) == wanted) return id;
    for (const Scope& scope : scopes_) {
      const auto found = scope.find(id);
      if (found == scope.end()) continue;
      for (const Version& version : found->second) {
        const bool filled = !fill || version.fill == fill;
        if (filled && version.placements == wanted) return version.id;
      }
    }
    return kNoValue;
  }

  // The value in this placement: as it is, as it was brought there before, or by nodes at the end
  // of `nodes`. With `fill`, what lies beyond the shards' extents is neutral in that reduction.
  GraphValueId in(GraphValueId id, const Placements& wanted, std::optional<ReduceOp> fill,
                  const std::string& reason, std::vector<GraphNode>& nodes) {
    if (before_is_constant(id)) return constant_in(id, wanted, reason);
    if (const GraphValueId found = find(id, wanted, fill); found != kNoValue) return found;
    const GraphValueId target = add_value(id, wanted);
    graph()[target].reason = reason;
    uses_[at(target)] = 2;
    move(id, target, fill, reason, nodes);
    // A reshard leaves zeros beyond the extents unless told otherwise.
    scopes_.back()[id].push_back({wanted, fill.value_or(ReduceOp::sum), target});
    return target;
  }

  bool before_is_constant(GraphValueId id) const {
    return at(id) < before_.values.size() && before_.is_constant(id);
  }

  // Constants are stored as they are wanted, with zeros beyond their extents, once for each way.
  GraphValueId constant_in(GraphValueId id, const Placements& wanted, const std::string& reason) {
    if (is_whole(wanted)) return id;
    auto& versions = constants_[id];
    for (const Version& version : versions) {
      if (version.placements == wanted) return version.id;
    }
    const GraphValueId stored = add_value(id, wanted);
    graph()[stored].constant = graph()[id].constant;
    graph()[stored].reason = wished(id) == wanted ? why(id) : reason;
    versions.push_back({wanted, std::nullopt, stored});
    return stored;
  }

  // Reshard nodes from one value to another, by the cheapest plan.
  void move(GraphValueId from, GraphValueId to, std::optional<ReduceOp> fill,
            const std::string& reason, std::vector<GraphNode>& nodes) {
    const TensorSpec before = placed_.spec(from);
    const TensorSpec after = placed_.spec(to);
    const ReshardPlan plan = plan_reshard(before, after);
    GraphValueId now = from;
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
      const bool last = i + 1 == plan.steps.size();
      const GraphValueId next = last ? to : add_value(from, plan.steps[i].to.placements);
      if (!last) graph()[next].reason = reason;
      add_reshard(now, next, to_string(plan.steps[i].movement), last ? fill : std::nullopt, reason,
                  nodes);
      now = next;
    }
    if (plan.steps.empty()) add_reshard(from, to, "fill", fill, reason, nodes);
  }

  void add_reshard(GraphValueId from, GraphValueId to, std::string_view movement,
                   std::optional<ReduceOp> fill, const std::string& reason,
                   std::vector<GraphNode>& nodes) {
    GraphNode node;
    node.def = &get_op("reshard");
    node.name = fmt::format("{} of {}", movement, graph()[from].name);
    node.message = reason;
    node.inputs = {from};
    node.outputs = {to};
    if (fill && *fill != ReduceOp::sum) {
      node.attributes.set("fill", static_cast<std::int64_t>(*fill));
    }
    graph().canonicalise(node);
    nodes.push_back(std::move(node));
  }

  // Results of both sides lie as the first side's do, reduced.
  void place_branch(const GraphNode& node, std::vector<GraphNode>& nodes) {
    GraphNode placed = node;
    placed.inputs[0] = in(node.inputs[0], full({}), std::nullopt,
                          fmt::format("the condition of \"{}\" is wanted whole", node.name), nodes);
    std::vector<std::optional<Placements>> results(node.outputs.size());
    for (std::shared_ptr<GraphBlock>& side : placed.blocks) {
      const GraphBlock& block = *side;
      scopes_.emplace_back();
      auto inner = std::make_shared<GraphBlock>();
      inner->nodes = place_block(block);
      for (std::size_t i = 0; i < block.results.size(); ++i) {
        const GraphValueId id = block.results[i];
        if (!results[i]) results[i] = reduced(id);
        inner->results.push_back(in(id, *results[i], std::nullopt,
                                    fmt::format("both sides of \"{}\" give it so", node.name),
                                    inner->nodes));
      }
      scopes_.pop_back();
      side = std::move(inner);
    }
    const std::size_t maker = nodes.size();
    nodes.push_back(std::move(placed));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      set(node.outputs[i], results[i].value_or(full({})),
          fmt::format("as the sides of \"{}\" give it", node.name));
      honour_annotation(node.outputs[i], maker, nodes);
    }
  }

  // Every device runs a loop whole: all devices must go through it equally often, and what is
  // carried must lie in every iteration as in the first.
  void place_loop(const GraphNode& node, std::vector<GraphNode>& nodes) {
    const std::string reason = fmt::format("every device runs loop \"{}\" whole", node.name);
    GraphNode placed = node;
    for (GraphValueId& id : placed.inputs) {
      if (id != kNoValue) id = in(id, full({}), std::nullopt, reason, nodes);
    }
    placed.blocks = {whole_block(*node.blocks[0], reason, nodes)};
    const std::size_t maker = nodes.size();
    nodes.push_back(std::move(placed));
    for (const GraphValueId id : node.outputs) {
      if (id == kNoValue) continue;
      set(id, full({}), reason);
      honour_annotation(id, maker, nodes);
    }
  }

  // A block of a loop with all of its values whole; those from outside are brought there before.
  std::shared_ptr<GraphBlock> whole_block(const GraphBlock& block, const std::string& reason,
                                          std::vector<GraphNode>& before) {
    auto whole = std::make_shared<GraphBlock>(block);
    for (const GraphValueId id : whole->parameters)
      set_whole(id, reason);
    for (GraphNode& node : whole->nodes) {
      for (GraphValueId& id : node.inputs) {
        if (id != kNoValue) id = in(id, full({}), std::nullopt, reason, before);
      }
      for (std::shared_ptr<GraphBlock>& inner : node.blocks)
        inner = whole_block(*inner, reason, before);
      for (const GraphValueId id : node.outputs) {
        if (id != kNoValue) set_whole(id, reason);
      }
    }
    for (GraphValueId& id : whole->results)
      id = in(id, full({}), std::nullopt, reason, before);
    drop_reshards(graph(), *whole);
    return whole;
  }

  void set_whole(GraphValueId id, const std::string& reason) {
    for (int axis = 0; axis < placed_.mesh.axes(); ++axis) {
      const auto& wish = wishes_.at(id, axis);
      if (!wish || wish->via != nullptr) continue;
      throw Error(ErrorCode::unsupported,
                  fmt::format("{}: {}, and \"{}\" is made in it: shard what goes in or comes out",
                              wishes_.explain(id, axis), reason, graph()[id].name));
    }
    set(id, full({}), reason);
  }

  // The placement of a value with whatever is partial reduced, to where it is wished.
  Placements reduced(GraphValueId id) const {
    Placements result = full(placed_.placement(id));
    for (int axis = 0; axis < placed_.mesh.axes(); ++axis) {
      Placement& own = result[static_cast<std::size_t>(axis)];
      if (own.kind() != Placement::Kind::partial) continue;
      const auto& wish = at(id) < before_.values.size() ? wishes_.at(id, axis) : std::nullopt;
      own = wish ? shard(wish->dim) : replicate();
    }
    return result;
  }

  void place_output(GraphOutput& output, std::vector<GraphNode>& nodes) {
    Placements wanted = reduced(output.value);
    if (!output.placements.empty()) wanted = output.placements;
    if (output.alias >= 0) {
      const GraphInput& input = graph().inputs[static_cast<std::size_t>(output.alias)];
      wanted = full(placed_.placement(input.value));
    }
    output.value = in(output.value, wanted, std::nullopt,
                      fmt::format("output \"{}\" is wanted so", output.name), nodes);
    output.placements = placed_.placement(output.value);
  }

  const Graph before_;
  PlacedGraph placed_;
  Wishes wishes_;
  partition::ChoiceContext context_;
  std::vector<int> uses_;
  std::vector<Scope> scopes_;
  Scope constants_;
};

}  // namespace

PlacedGraph partition_graph(Graph graph, const MeshShape& mesh, const ShardWishes& wishes) {
  if (mesh.device_count() == 1) {
    static_cast<void>(partition::make_wishes(graph, mesh, wishes));  // for what can't be
    PlacedGraph placed{std::move(graph), mesh};
    for (GraphInput& input : placed.graph.inputs)
      input.placements.clear();
    for (GraphOutput& output : placed.graph.outputs)
      output.placements.clear();
    drop_reshards(placed.graph, placed.graph.body);
    return placed;
  }
  return Partitioner(std::move(graph), mesh, wishes).run();
}

}  // namespace tilemesh
