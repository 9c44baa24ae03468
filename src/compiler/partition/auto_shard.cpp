#include "compiler/partition/auto_shard.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh::partition {

namespace {

std::int64_t part_count(const MeshShape& mesh, const std::vector<int>& axes) {
  std::int64_t parts = 1;
  for (const int axis : axes)
    parts *= mesh[axis];
  return parts;
}

/// A weight of a product, and the dim of it that becomes a dim of the result.
struct Columns {
  GraphValueId weight = kNoValue;
  int dim = 0;
};

class PairSearch {
 public:
  PairSearch(Wishes& wishes, const Graph& graph, const MeshShape& mesh,
             const std::vector<int>& axes)
      : wishes_(wishes), graph_(graph), axes_(axes), parts_(part_count(mesh, axes)) {}

  int run() {
    visit(graph_.body);
    return pairs_;
  }

 private:
  void visit(const GraphBlock& block) {
    for (const GraphNode& node : block.nodes) {
      if (node.kind == GraphNode::Kind::branch) {
        for (const auto& inner : node.blocks)
          visit(*inner);
      }
      if (node.kind != GraphNode::Kind::call) continue;
      if (const auto columns = columns_of(node)) try_cut(*columns);
    }
  }

  bool is_weight(GraphValueId id) const {
    if (id == kNoValue || graph_[id].type.shape.rank() < 2) return false;
    return graph_.is_constant(id) ||
           std::ranges::any_of(graph_.inputs, [&](const GraphInput& input) {
             return input.value == id && input.kind == InputKind::parameter;
           });
  }

  bool is_cut(GraphValueId id) const { return wishes_.at(id, axes_[0]).has_value(); }

  std::optional<Columns> columns_of(const GraphNode& node) {
    if (node.def->partial != PartialRule::scales || node.inputs.size() != 2) return std::nullopt;
    if (is_cut(node.outputs[0])) return std::nullopt;
    for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
      const GraphValueId weight = node.inputs[i];
      if (!is_weight(weight) || is_weight(node.inputs[1 - i]) || is_cut(weight)) continue;
      const Factors& rule = wishes_.factors(node);
      const std::vector<int>& dims = rule.inputs[i];
      for (std::size_t d = dims.size(); d-- > 0;) {
        const bool to_result = dim_of(rule.outputs[0], dims[d]).has_value();
        const bool alone = !dim_of(rule.inputs[1 - i], dims[d]).has_value();
        const std::int64_t size = graph_[weight].type.shape[static_cast<int>(d)];
        if (to_result && alone && size > 0 && size % parts_ == 0) {
          return Columns{weight, static_cast<int>(d)};
        }
      }
    }
    return std::nullopt;
  }

  // Cuts the columns, and takes that back unless it ends well.
  void try_cut(const Columns& columns) {
    Wishes before = wishes_;
    const int origin = wishes_.add_origin(
        fmt::format("--auto tensor: \"{}\" in columns", graph_[columns.weight].name));
    for (const int axis : axes_)
      wishes_.say(columns.weight, axis, columns.dim, origin);
    wishes_.spread();
    if (ends_well()) {
      ++pairs_;
    } else {
      wishes_ = std::move(before);
    }
  }

  // Everything that was reached stays cut until it is summed up, and is summed up somewhere.
  bool ends_well() {
    int sums = 0;
    for (const GraphValueId id : wishes_.reached()) {
      const auto& wish = wishes_.at(id, axes_[0]);
      if (!wish) return false;
      for (const GraphNode* node : wishes_.touching(id)) {
        const Factors& rule = wishes_.factors(*node);
        for (std::size_t i = 0; i < node->inputs.size(); ++i) {
          if (node->inputs[i] != id) continue;
          const int factor = rule.inputs[i][static_cast<std::size_t>(wish->dim)];
          if (!stays_cut(*node, rule, factor)) return false;
          const bool summed = std::ranges::none_of(
              rule.outputs, [&](const auto& dims) { return dim_of(dims, factor).has_value(); });
          if (summed) ++sums;
        }
        for (std::size_t o = 0; o < node->outputs.size(); ++o) {
          if (node->outputs[o] != id) continue;
          const int factor = rule.outputs[o][static_cast<std::size_t>(wish->dim)];
          if (!stays_cut(*node, rule, factor)) return false;
        }
      }
    }
    return sums > 0;
  }

  bool stays_cut(const GraphNode& node, const Factors& rule, int factor) const {
    return factor != Factors::kNone && can_cut(graph_.call_of(node), rule, factor, parts_);
  }

  Wishes& wishes_;
  const Graph& graph_;
  std::vector<int> axes_;
  std::int64_t parts_;
  int pairs_ = 0;
};

}  // namespace

void wish_data(Wishes& wishes, const Graph& graph, const MeshShape& mesh,
               const std::vector<int>& axes) {
  std::optional<std::int64_t> batch;
  std::vector<std::string> shapes;
  for (const GraphInput& input : graph.inputs) {
    if (input.kind != InputKind::activation) continue;
    const Shape& shape = graph[input.value].type.shape;
    shapes.push_back(fmt::format("\"{}\" {}", input.name, shape.to_string()));
    if (shape.rank() > 0 && shape[0] > 1 && !batch) batch = shape[0];
  }
  if (!batch) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("it has no batch to cut over the mesh {}: its inputs are {}; compile it for "
                    "a batch (--dim), or shard another dim (--shard)",
                    mesh.to_string(), fmt::join(shapes, ", ")));
  }
  const int origin = wishes.add_origin(fmt::format("--auto data: a batch of {}", *batch));
  for (const GraphInput& input : graph.inputs) {
    if (input.kind != InputKind::activation) continue;
    const Shape& shape = graph[input.value].type.shape;
    if (shape.rank() == 0 || shape[0] != *batch) continue;
    for (const int axis : axes) {
      if (!wishes.at(input.value, axis)) wishes.say(input.value, axis, 0, origin);
    }
  }
  wishes.spread();
}

void wish_tensor(Wishes& wishes, const Graph& graph, const MeshShape& mesh,
                 const std::vector<int>& axes) {
  bool is_cut = false;
  for (std::size_t i = 0; i < graph.values.size(); ++i)
    is_cut = is_cut || wishes.at(static_cast<GraphValueId>(i), axes.front()).has_value();
  if (PairSearch(wishes, graph, mesh, axes).run() > 0 || is_cut) return;
  throw Error(
      ErrorCode::unsupported,
      fmt::format("it has no products to cut into {} parts over the mesh {}: what is looked for "
                  "are weights whose columns divide by that, followed by products that sum "
                  "over these columns (an MLP, the heads of attention); shard weights by "
                  "name (--shard), or cut the batch (--auto data)",
                  part_count(mesh, axes), mesh.to_string()));
}

}  // namespace tilemesh::partition
