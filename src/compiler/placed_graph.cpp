#include "compiler/placed_graph.hpp"

namespace tilemesh {
namespace {

// Attributes that state an output's whole shape become the shard's.
void localise(OpCall& call) {
  const std::string_view op = call.def->name;
  const std::string_view name = op == "resize" ? "sizes" : "shape";
  if ((op == "reshape" || op == "expand" || op == "resize") && call.attributes.has(name)) {
    const Shape& shape = call.outputs[0].shape;
    call.attributes.set(name, std::vector<std::int64_t>(shape.begin(), shape.end()));
  }
}

}  // namespace

GraphValueId PlacedGraph::add_value(std::string name, OperandType type, GraphValueId like) {
  const GraphValueId id = graph.add_value(std::move(name), std::move(type));
  graph[id].placements = graph[like].placements;
  graph[id].reason = graph[like].reason;
  return id;
}

TensorSpec PlacedGraph::spec(GraphValueId id, Space space) const {
  const OperandType& type = graph[id].type;
  return {type.shape, type.dtype, placement(id), type.layout, space, mesh};
}

OperandType PlacedGraph::shard_type(GraphValueId id) const {
  OperandType type;
  type.present = id != kNoValue;
  if (!type.present) return type;
  type = graph[id].type;
  if (!placement(id).empty()) type.shape = spec(id).shard_shape();
  return type;
}

OpCall PlacedGraph::shard_call(const GraphNode& node) const {
  OpCall call{node.def, node.attributes, node.epilogue, {}, {}};
  for (const GraphValueId id : node.inputs)
    call.inputs.push_back(shard_type(id));
  for (const GraphValueId id : node.outputs)
    call.outputs.push_back(shard_type(id));
  localise(call);
  return call;
}

}  // namespace tilemesh
