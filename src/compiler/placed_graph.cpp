#include "compiler/placed_graph.hpp"

#include "tilemesh/program/localise.hpp"

namespace tilemesh {

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
  type_absent_outputs(call);
  return call;
}

}  // namespace tilemesh
