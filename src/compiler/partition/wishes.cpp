#include "compiler/partition/wishes.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh::partition {

namespace {

std::size_t at_index(GraphValueId id) {
  return static_cast<std::size_t>(id);
}

}  // namespace

std::optional<int> dim_of(const std::vector<int>& dims, int factor) {
  const auto found = std::ranges::find(dims, factor);
  if (factor == Factors::kNone || found == dims.end()) return std::nullopt;
  return static_cast<int>(found - dims.begin());
}

Wishes::Wishes(const Graph& graph, const MeshShape& mesh)
    : graph_(&graph),
      mesh_(mesh),
      wishes_(graph.values.size()),
      touching_(graph.values.size()),
      links_(graph.values.size()) {
  index_block(graph.body);
}

void Wishes::index_block(const GraphBlock& block) {
  for (const GraphNode& node : block.nodes) {
    if (node.kind == GraphNode::Kind::branch) {
      for (const auto& side : node.blocks) {
        index_block(*side);
        link_results(node, *side);
      }
    }
    if (node.kind != GraphNode::Kind::call) continue;
    for (const auto* ids : {&node.inputs, &node.outputs}) {
      for (const GraphValueId id : *ids) {
        if (id == kNoValue) continue;
        auto& nodes = touching_[at_index(id)];
        if (nodes.empty() || nodes.back() != &node) nodes.push_back(&node);
      }
    }
  }
}

void Wishes::link_results(const GraphNode& branch, const GraphBlock& side) {
  if (side.results.size() != branch.outputs.size()) return;  // it ends in a fail
  for (std::size_t i = 0; i < side.results.size(); ++i) {
    links_[at_index(side.results[i])].push_back({side.results[i], branch.outputs[i], &branch});
    links_[at_index(branch.outputs[i])].push_back({branch.outputs[i], side.results[i], &branch});
  }
}

int Wishes::add_origin(std::string text) {
  origins_.push_back(std::move(text));
  return static_cast<int>(origins_.size()) - 1;
}

void Wishes::check_dim(GraphValueId id, int dim, int said_by) const {
  const Shape& shape = (*graph_)[id].type.shape;
  if (dim < 0 || dim >= shape.rank()) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: \"{}\" of shape {} has no dim {}: its dims are 0 to {}", origin(said_by),
                    (*graph_)[id].name, shape.to_string(), dim, shape.rank() - 1));
  }
}

void Wishes::say(GraphValueId id, int axis, int dim, int said_by) {
  check_dim(id, dim, said_by);
  auto& wish = wishes_[at_index(id)][static_cast<std::size_t>(axis)];
  if (wish && wish->via == nullptr && wish->dim != dim) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("\"{}\" is to be cut along dim {} ({}) and along dim {} ({}), both on "
                            "mesh axis {}: name one",
                            (*graph_)[id].name, wish->dim, origin(wish->origin), dim,
                            origin(said_by), axis));
  }
  wish = Wish{dim, said_by, nullptr};
  pending_.push_back({id, axis});
}

void Wishes::spread() {
  reached_.clear();
  while (!pending_.empty()) {
    const Step step = pending_.front();
    pending_.pop_front();
    reached_.push_back(step.id);
    for (const GraphNode* node : touching_[at_index(step.id)]) {
      spread_through(*node, step.id, step.axis);
    }
    const Wish own = *at(step.id, step.axis);
    for (const Link& link : links_[at_index(step.id)]) {
      wish(link.to, step.axis, {own.dim, own.origin, link.node}, step.id);
    }
  }
}

const Factors& Wishes::factors(const GraphNode& node) {
  const auto found = factors_.find(&node);
  if (found != factors_.end()) return found->second;
  return factors_.emplace(&node, factors_of(graph_->call_of(node))).first->second;
}

std::int64_t Wishes::parts(GraphValueId id, int dim) const {
  std::int64_t parts = 1;
  for (int axis = 0; axis < mesh_.axes(); ++axis) {
    if (const auto& wish = at(id, axis); wish && wish->dim == dim) parts *= mesh_[axis];
  }
  return parts;
}

void Wishes::spread_through(const GraphNode& node, GraphValueId id, int axis) {
  const Wish own = *at(id, axis);
  const Factors& rule = factors(node);
  const auto from = [&](const std::vector<GraphValueId>& ids,
                        const std::vector<std::vector<int>>& dims, const auto& act) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] != kNoValue) act(ids[i], dims[i]);
    }
  };
  std::vector<int> cut;
  const auto collect = [&](GraphValueId operand, const std::vector<int>& dims) {
    if (operand != id) return;
    const int factor = dims[static_cast<std::size_t>(own.dim)];
    if (factor != Factors::kNone) cut.push_back(factor);
  };
  from(node.inputs, rule.inputs, collect);
  from(node.outputs, rule.outputs, collect);
  for (const int factor : cut) {
    if (!can_cut(graph_->call_of(node), rule, factor, parts(id, own.dim))) continue;
    const auto pass = [&](GraphValueId operand, const std::vector<int>& dims) {
      if (const auto dim = dim_of(dims, factor)) {
        wish(operand, axis, {*dim, own.origin, &node}, id);
      }
    };
    from(node.inputs, rule.inputs, pass);
    from(node.outputs, rule.outputs, pass);
  }
}

void Wishes::wish(GraphValueId id, int axis, const Wish& wish, GraphValueId from) {
  auto& own = wishes_[at_index(id)];
  if (own[static_cast<std::size_t>(axis)]) return;
  const int from_dim = at(from, axis)->dim;
  for (int other = 0; other < mesh_.axes(); ++other) {
    const auto& claim = own[static_cast<std::size_t>(other)];
    if (!claim || claim->dim != wish.dim) continue;
    const auto& there = at(from, other);
    if (!there || there->dim != from_dim) return;  // another axis has the dim
  }
  own[static_cast<std::size_t>(axis)] = wish;
  pending_.push_back({id, axis});
}

std::string Wishes::explain(GraphValueId id, int axis) const {
  const auto& wish = at(id, axis);
  if (!wish) return {};
  std::string text =
      fmt::format("shard {} along axis {}: {}", wish->dim, axis, origin(wish->origin));
  if (wish->via != nullptr) text += fmt::format(", through \"{}\"", wish->via->name);
  return text;
}

}  // namespace tilemesh::partition
