#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "compiler/placed_graph.hpp"

namespace tilemesh {
namespace {

// Today a value is cut along one dim over all mesh axes, or replicated.
std::optional<int> cut_dim(const Placements& placements) {
  for (const Placement& placement : placements) {
    if (placement.is_shard()) return placement.dim();
  }
  return std::nullopt;
}

class Placer {
 public:
  Placer(Graph graph, const MeshShape& mesh) {
    placed_.graph = std::move(graph);
    placed_.mesh = mesh;
    placed_.placements.resize(placed_.graph.values.size());
  }

  PlacedGraph run() {
    for (const GraphInput& input : placed_.graph.inputs)
      place_input(input);
    place_block(placed_.graph.body);
    for (GraphOutput& output : placed_.graph.outputs) {
      output.placements = placed_.placement(output.value);
    }
    return std::move(placed_);
  }

 private:
  [[noreturn]] static void refuse(const GraphNode& node, const std::string& why) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("op \"{}\" ({}) can't run on inputs cut over the mesh: {}; shard another "
                    "dim, or replicate",
                    node.name, node.def != nullptr ? node.def->name : "if", why));
  }

  Placements cut(int dim) const {
    Placements placements;
    for (int axis = 0; axis < placed_.mesh.axes(); ++axis) {
      placements.push_back(placed_.mesh[axis] > 1 ? shard(dim) : replicate());
    }
    return placements;
  }

  void set(GraphValueId id, const Placements& placements) {
    placed_.placements[static_cast<std::size_t>(id)] = placements;
  }

  std::optional<int> cut_of(GraphValueId id) const {
    return id == kNoValue ? std::nullopt : cut_dim(placed_.placement(id));
  }

  void place_input(const GraphInput& input) {
    if (input.placements.empty()) return;
    const TensorSpec spec{placed_.graph[input.value].type.shape,
                          placed_.graph[input.value].type.dtype,
                          input.placements,
                          {},
                          input.space,
                          placed_.mesh};
    try {
      spec.check();
    } catch (const Error& error) {
      throw error.in(fmt::format("input \"{}\"", input.name));
    }
    const std::optional<int> dim = cut_dim(input.placements);
    for (int axis = 0; axis < placed_.mesh.axes(); ++axis) {
      if (placed_.mesh[axis] == 1) continue;
      const Placement placement = spec.placement(axis);
      if (dim ? placement != shard(*dim) : !placement.is_replicate()) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("input \"{}\" is {}: an input is cut along one dim over all mesh "
                                "axes, or replicated",
                                input.name, spec.to_string()));
      }
    }
    if (dim && placed_.mesh.device_count() > 1) set(input.value, cut(*dim));
  }

  void place_block(const GraphBlock& block) {
    for (const GraphNode& node : block.nodes) {
      if (node.kind == GraphNode::Kind::call) place_call(node);
      if (node.kind == GraphNode::Kind::branch) place_branch(node);
    }
  }

  // The factor that the cut inputs of a call share; none if they are all replicated.
  std::optional<int> cut_factor(const GraphNode& node, const Factors& factors) const {
    std::optional<int> factor;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const std::optional<int> dim = cut_of(node.inputs[i]);
      if (!dim) continue;
      const int f = factors.inputs.at(i).at(static_cast<std::size_t>(*dim));
      if (f == Factors::kNone) {
        refuse(node, fmt::format("it needs all of dim {} of its input {} on one device", *dim, i));
      }
      if (factor && *factor != f) refuse(node, "its inputs are cut along dims that don't match");
      factor = f;
    }
    return factor;
  }

  void place_call(const GraphNode& node) {
    const bool any_cut =
        std::ranges::any_of(node.inputs, [&](GraphValueId id) { return cut_of(id).has_value(); });
    if (!any_cut) return;
    const Factors factors = factors_of(placed_.graph.call_of(node));
    const std::optional<int> factor = cut_factor(node, factors);
    if (!factor) return;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue || cut_of(node.inputs[i])) continue;
      const auto& dims = factors.inputs.at(i);
      const auto whole = std::ranges::find(dims, *factor);
      if (whole != dims.end()) {
        refuse(node, fmt::format("its input {} is whole on every device and would have to be cut "
                                 "along its dim {} as well",
                                 i, whole - dims.begin()));
      }
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      const auto& dims = factors.outputs.at(i);
      const auto dim = std::ranges::find(dims, *factor);
      if (dim == dims.end()) refuse(node, "it sums or searches over the dim that is cut");
      set(node.outputs[i], cut(static_cast<int>(dim - dims.begin())));
    }
  }

  void place_branch(const GraphNode& node) {
    if (cut_of(node.inputs[0])) refuse(node, "its condition is cut");
    bool first = true;
    for (const GraphBlock* block : {node.then_block.get(), node.else_block.get()}) {
      place_block(*block);
      if (block->results.size() != node.outputs.size()) continue;  // it ends in a fail
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        const Placements& given = placed_.placement(block->results[i]);
        if (!first && !(given == placed_.placement(node.outputs[i]))) {
          refuse(node, fmt::format("its sides place result {} in different ways", i));
        }
        set(node.outputs[i], given);
      }
      first = false;
    }
  }

  PlacedGraph placed_;
};

}  // namespace

PlacedGraph place(Graph graph, const MeshShape& mesh) {
  return Placer(std::move(graph), mesh).run();
}

}  // namespace tilemesh
