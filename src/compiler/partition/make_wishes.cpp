#include "compiler/partition/make_wishes.hpp"

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/types/redistribution.hpp"

#include "compiler/partition/auto_shard.hpp"
#include "compiler/partition/shard_rules.hpp"

namespace tilemesh::partition {
namespace {

std::vector<int> cut_axes(const MeshShape& mesh) {
  std::vector<int> axes;
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    if (mesh[axis] > 1) axes.push_back(axis);
  }
  return axes;
}

class WishMaker {
 public:
  WishMaker(const Graph& graph, const MeshShape& mesh, const ShardWishes& said)
      : graph_(graph), mesh_(mesh), said_(said), wishes_(graph, mesh) {}

  Wishes run() {
    for (const GraphInput& input : graph_.inputs)
      say("input", input.name, input.value, input.placements);
    for (const ShardRule& rule : said_.rules)
      say(rule);
    say_reshards(graph_.body);
    for (const GraphOutput& output : graph_.outputs)
      say("output", output.name, output.value, output.placements);
    wishes_.spread();
    automatic();
    return std::move(wishes_);
  }

 private:
  void say_reshards(const GraphBlock& block) {
    for (const GraphNode& node : block.nodes) {
      for (const auto& inner : node.blocks)
        say_reshards(*inner);
      if (node.def != nullptr && node.def->name == "reshard") {
        say("reshard", node.name, node.outputs[0], graph_[node.outputs[0]].placements);
      }
    }
  }

  void say(std::string_view what, const std::string& name, GraphValueId id,
           const Placements& placements) {
    if (placements.empty()) return;
    const TensorSpec spec{.shape = graph_[id].type.shape,
                          .dtype = graph_[id].type.dtype,
                          .placements = placements,
                          .mesh = mesh_};
    try {
      spec.check();
    } catch (const Error& error) {
      throw error.in(fmt::format("{} \"{}\"", what, name));
    }
    for (const int axis : cut_axes(mesh_)) {
      const Placement placement = spec.placement(axis);
      if (!placement.is_shard()) continue;
      const int origin = wishes_.add_origin(
          fmt::format("{} \"{}\" is {}", what, name, placements_to_string(spec)));
      wishes_.say(id, axis, placement.dim(), origin);
    }
  }

  void say(const ShardRule& rule) {
    if (rule.axis >= mesh_.axes()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: mesh {} has no axis {}: its axes are 0 to {}", to_string(rule),
                              mesh_.to_string(), rule.axis, mesh_.axes() - 1));
    }
    const std::vector<GraphValueId> ids = values_of(rule, graph_);
    if (ids.empty()) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("{}: the value is folded into others by the compiler: shard what it "
                              "is made from, or what is made of it",
                              to_string(rule)));
    }
    const int origin = wishes_.add_origin(to_string(rule));
    for (const GraphValueId id : ids) {
      wishes_.check_dim(id, rule.dim, origin);
      for (const int axis : cut_axes(mesh_)) {
        if (rule.axis < 0 || rule.axis == axis) wishes_.say(id, axis, rule.dim, origin);
      }
    }
  }

  // One way takes all axes that cut, of two the first way takes the first axis.
  void automatic() {
    std::vector<int> axes = cut_axes(mesh_);
    if (axes.empty()) return;
    for (std::size_t i = 0; i < said_.automatic.size(); ++i) {
      std::vector<int> own = axes;
      if (said_.automatic.size() == 2) {
        if (axes.size() < 2) {
          throw Error(ErrorCode::invalid_argument,
                      fmt::format("to cut data and tensor, a mesh needs two axes of more than one "
                                  "device, and {} has {}: name one of the two, or another mesh",
                                  mesh_.to_string(), axes.size()));
        }
        own = i == 0 ? std::vector<int>{axes.front()}
                     : std::vector<int>(axes.begin() + 1, axes.end());
      }
      if (said_.automatic[i] == AutoShard::data) wish_data(wishes_, graph_, mesh_, own);
      if (said_.automatic[i] == AutoShard::tensor) wish_tensor(wishes_, graph_, mesh_, own);
    }
  }

  const Graph& graph_;
  const MeshShape& mesh_;
  const ShardWishes& said_;
  Wishes wishes_;
};

}  // namespace

Wishes make_wishes(const Graph& graph, const MeshShape& mesh, const ShardWishes& said) {
  return WishMaker(graph, mesh, said).run();
}

}  // namespace tilemesh::partition
