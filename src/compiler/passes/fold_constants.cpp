#include <algorithm>

#include "tilemesh/base/math.hpp"

#include "compiler/interpret.hpp"
#include "compiler/passes/graph_index.hpp"
#include "compiler/passes/pass.hpp"

namespace tilemesh::passes {
namespace {

// A small result is always worth it; a large one only if it isn't much larger than what it is made
// of (an expanded scalar isn't). Weights that no kernel reads as integers are worth four times
// their bytes, which would else be made in every run.
bool is_worth_it(const OpCall& call) {
  if (call.def->name == "dequantize") return true;
  using namespace literals;
  std::int64_t in = 0;
  std::int64_t out = 0;
  for (const OperandType& type : call.inputs)
    in = checked_add(in, type.bytes());
  for (const OperandType& type : call.outputs)
    out = checked_add(out, type.bytes());
  return out <= 1_MiB || out / 2 <= in;
}

bool fold(Graph& graph, const GraphNode& node) {
  if (node.kind != GraphNode::Kind::call) return false;
  const bool is_known = std::ranges::all_of(
      node.inputs, [&](GraphValueId id) { return id == kNoValue || graph.is_constant(id); });
  if (!is_known) return false;
  const OpCall call = graph.call_of(node);
  if (!is_worth_it(call)) return false;
  std::vector<const ConstantData*> inputs;
  for (const GraphValueId id : node.inputs) {
    inputs.push_back(id == kNoValue ? nullptr : graph[id].constant.get());
  }
  std::vector<ConstantData> results;
  try {
    results = evaluate(call, inputs);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) throw;
    return false;  // it fails when it is run, if it is ever reached
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    graph[node.outputs[i]].constant = std::make_shared<const ConstantData>(std::move(results[i]));
  }
  return true;
}

}  // namespace

bool fold_constants(Graph& graph) {
  bool changed = false;
  for_each_block(graph.body, [&](GraphBlock& block) {
    changed =
        std::erase_if(block.nodes, [&](const GraphNode& node) { return fold(graph, node); }) > 0 ||
        changed;
  });
  return changed;
}

}  // namespace tilemesh::passes
