#include "compiler/onnx/prune.hpp"

#include <vector>

namespace tilemesh::onnx_importer {
namespace {

// Gives each value its new number where it is first met.
class Renumbering {
 public:
  Renumbering(const Graph& from, Graph& to)
      : from_(from), to_(to), ids_(from.values.size(), kNoValue) {}

  GraphValueId operator()(GraphValueId id) {
    if (id == kNoValue) return kNoValue;
    GraphValueId& mapped = ids_[static_cast<std::size_t>(id)];
    if (mapped == kNoValue) {
      mapped = static_cast<GraphValueId>(to_.values.size());
      to_.values.push_back(from_[id]);
    }
    return mapped;
  }

  void block(GraphBlock& block) {
    for (GraphValueId& id : block.parameters)
      id = (*this)(id);
    for (GraphNode& node : block.nodes) {
      for (GraphValueId& id : node.inputs)
        id = (*this)(id);
      for (const auto& inner : node.blocks)
        this->block(*inner);
      for (GraphValueId& id : node.outputs)
        id = (*this)(id);
    }
    for (GraphValueId& id : block.results)
      id = (*this)(id);
  }

 private:
  const Graph& from_;
  Graph& to_;
  std::vector<GraphValueId> ids_;
};

}  // namespace

Graph pruned(const Graph& graph) {
  Graph result;
  result.name = graph.name;
  result.metadata = graph.metadata;
  result.inputs = graph.inputs;
  result.outputs = graph.outputs;
  result.body = graph.body;  // blocks of branches are shared, and belong to the result from here
  Renumbering renumber(graph, result);
  for (GraphInput& input : result.inputs)
    input.value = renumber(input.value);
  renumber.block(result.body);
  for (GraphOutput& output : result.outputs)
    output.value = renumber(output.value);
  return result;
}

}  // namespace tilemesh::onnx_importer
