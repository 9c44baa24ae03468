#include "compiler/interpret.hpp"

#include <cstring>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

namespace tilemesh {

std::vector<ConstantData> evaluate(const OpCall& call,
                                   const std::vector<const ConstantData*>& inputs) {
  std::vector<const std::byte*> sources;
  for (const ConstantData* input : inputs) {
    sources.push_back(input != nullptr ? input->bytes->data() : nullptr);
  }
  std::vector<std::shared_ptr<std::vector<std::byte>>> results;
  std::vector<std::byte*> targets;
  for (const OperandType& type : call.outputs) {
    const std::int64_t bytes = checked_mul(type.shape.element_count(), size_of(type.dtype));
    results.push_back(std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(bytes)));
    targets.push_back(type.present ? results.back()->data() : nullptr);
  }
  run_reference(call, sources, targets);
  std::vector<ConstantData> values;
  for (std::size_t i = 0; i < results.size(); ++i) {
    values.push_back({call.outputs[i].dtype, call.outputs[i].shape, std::move(results[i])});
  }
  return values;
}

namespace {

class Interpreter {
 public:
  explicit Interpreter(const Graph& graph) : graph_(graph), values_(graph.values.size()) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (graph.values[i].constant) values_[i] = *graph.values[i].constant;
    }
  }

  ConstantData& at(GraphValueId id) { return values_[static_cast<std::size_t>(id)]; }

  void run(const GraphBlock& block) {
    for (const GraphNode& node : block.nodes)
      run(node);
  }

 private:
  void run(const GraphNode& node) {
    switch (node.kind) {
      case GraphNode::Kind::call: return run_call(node);
      case GraphNode::Kind::branch: return run_branch(node);
      case GraphNode::Kind::loop: return run_loop(node);
      case GraphNode::Kind::fail: throw Error(ErrorCode::kernel_failed, node.message);
    }
  }

  void run_call(const GraphNode& node) {
    std::vector<const ConstantData*> inputs;
    for (const GraphValueId id : node.inputs) {
      inputs.push_back(id == kNoValue ? nullptr : &at(id));
    }
    std::vector<ConstantData> results = evaluate(graph_.call_of(node), inputs);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (node.outputs[i] != kNoValue) at(node.outputs[i]) = std::move(results[i]);
    }
  }

  void run_branch(const GraphNode& node) {
    const GraphBlock& block = *node.blocks[holds(node.inputs[0]) ? 0 : 1];
    run(block);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      at(node.outputs[i]) = at(block.results[i]);
    }
  }

  bool holds(GraphValueId condition) { return (*at(condition).bytes)[0] != std::byte{0}; }

  std::int64_t number(GraphValueId id) {
    std::int64_t value = 0;
    std::memcpy(&value, at(id).bytes->data(), sizeof(value));
    return value;
  }

  void run_loop(const GraphNode& node) {
    const GraphBlock& body = *node.blocks[0];
    std::vector<ConstantData> carried;
    for (std::size_t i = 2; i < node.inputs.size(); ++i)
      carried.push_back(at(node.inputs[i]));
    bool goes_on = holds(node.inputs[0]);
    for (std::int64_t trip = number(node.inputs[2]); goes_on;) {
      for (std::size_t i = 0; i < carried.size(); ++i)
        at(body.parameters[i]) = carried[i];
      run(body);
      ++trip;
      carried[0] = make_constant<std::int64_t>({trip}, carried[0].shape);
      for (std::size_t i = 1; i < carried.size(); ++i)
        carried[i] = at(body.results[i]);
      const bool more = node.inputs[1] == kNoValue || trip < number(node.inputs[1]);
      goes_on = more && holds(body.results[0]);
      if (goes_on && trip >= node.limit) {
        throw Error(ErrorCode::kernel_failed, fmt::format("more than {} iterations", node.limit));
      }
    }
    for (std::size_t i = 0; i < carried.size(); ++i) {
      if (node.outputs[i] != kNoValue) at(node.outputs[i]) = carried[i];
    }
  }

  const Graph& graph_;
  std::vector<ConstantData> values_;
};

}  // namespace

std::vector<ConstantData> interpret(const Graph& graph,
                                    const std::map<std::string, ConstantData>& inputs) {
  Interpreter interpreter(graph);
  for (const GraphInput& input : graph.inputs) {
    const auto given = inputs.find(input.name);
    if (given == inputs.end()) {
      throw Error(ErrorCode::not_found,
                  fmt::format("input \"{}\" of graph \"{}\" isn't given", input.name, graph.name));
    }
    interpreter.at(input.value) = given->second;
  }
  interpreter.run(graph.body);
  std::vector<ConstantData> outputs;
  for (const GraphOutput& output : graph.outputs)
    outputs.push_back(interpreter.at(output.value));
  return outputs;
}

}  // namespace tilemesh
