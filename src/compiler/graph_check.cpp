#include <vector>

#include <fmt/format.h>

#include "tilemesh/compiler/graph.hpp"

namespace tilemesh {
namespace {

// Walks a graph in order of execution, keeping the set of values that are defined.
class Checker {
 public:
  explicit Checker(const Graph& graph) : graph_(graph), defined_(graph.values.size(), false) {}

  void run() {
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      defined_[i] = graph_.values[i].constant != nullptr;
      TILEMESH_CHECK(graph_.values[i].type.present, where("a value that isn't present"));
    }
    for (const GraphInput& input : graph_.inputs) {
      define(input.value, fmt::format("input \"{}\"", input.name));
    }
    check_block(graph_.body);
    for (const GraphOutput& output : graph_.outputs) {
      use(output.value, fmt::format("output \"{}\"", output.name));
      TILEMESH_CHECK(output.alias >= -1 && output.alias < static_cast<int>(graph_.inputs.size()),
                     where(fmt::format("the alias of output \"{}\"", output.name)));
    }
  }

 private:
  std::string where(const std::string& what) const {
    return fmt::format("graph \"{}\": {}", graph_.name, what);
  }

  std::size_t index(GraphValueId id, const std::string& user) const {
    const auto i = static_cast<std::size_t>(id);
    TILEMESH_CHECK(i < graph_.values.size(),
                   where(fmt::format("{} names value {} of {}", user, i, graph_.values.size())));
    return i;
  }

  void define(GraphValueId id, const std::string& user) {
    const std::size_t i = index(id, user);
    TILEMESH_CHECK(!defined_[i], where(fmt::format("{} defines value {} again", user, i)));
    defined_[i] = true;
  }

  void use(GraphValueId id, const std::string& user) const {
    const std::size_t i = index(id, user);
    TILEMESH_CHECK(defined_[i], where(fmt::format("{} reads value {} before it is made", user, i)));
  }

  void check_block(const GraphBlock& block) {
    for (const GraphNode& node : block.nodes)
      check_node(node);
    for (const GraphValueId id : block.results)
      use(id, "a block's result");
  }

  void check_node(const GraphNode& node) {
    const std::string user = fmt::format("node \"{}\"", node.name);
    for (const GraphValueId id : node.inputs) {
      if (id != kNoValue) use(id, user);
    }
    if (node.kind == GraphNode::Kind::branch) check_branch(node, user);
    if (node.kind == GraphNode::Kind::loop) check_loop(node, user);
    if (node.kind == GraphNode::Kind::call) check_call(node, user);
    for (const GraphValueId id : node.outputs) {
      if (id != kNoValue) define(id, user);
    }
  }

  void check_branch(const GraphNode& node, const std::string& user) {
    TILEMESH_CHECK(node.inputs.size() == 1 && node.blocks.size() == 2,
                   where(user + " is no whole branch"));
    for (const auto& block : node.blocks) {
      const std::vector<bool> outer = defined_;
      check_block(*block);
      defined_ = outer;  // what a block makes is its own
      const bool fails = !block->nodes.empty() && block->nodes.back().kind == GraphNode::Kind::fail;
      TILEMESH_CHECK(fails || block->results.size() == node.outputs.size(),
                     where(user + " has a side with a wrong number of results"));
      for (std::size_t i = 0; !fails && i < block->results.size(); ++i) {
        const OperandType& given = graph_[block->results[i]].type;
        const OperandType& wanted = graph_[node.outputs[i]].type;
        TILEMESH_CHECK(given.dtype == wanted.dtype && given.shape == wanted.shape,
                       where(user + " has a side whose result is of another type"));
      }
    }
  }

  void check_loop(const GraphNode& node, const std::string& user) {
    const std::size_t count = node.outputs.size();
    TILEMESH_CHECK(node.blocks.size() == 1 && node.inputs.size() == count + 2 &&
                       node.blocks[0]->parameters.size() == count &&
                       node.blocks[0]->results.size() == count && node.limit > 0,
                   where(user + " is no whole loop"));
    const GraphBlock& body = *node.blocks[0];
    const std::vector<bool> outer = defined_;
    for (const GraphValueId id : body.parameters)
      define(id, user);
    check_block(body);
    defined_ = outer;
    for (std::size_t i = 0; i < count; ++i) {
      const OperandType& carried = graph_[body.parameters[i]].type;
      const GraphValueId next = i == 0 ? body.parameters[0] : body.results[i];
      for (const GraphValueId id : {node.inputs[i + 2], next, node.outputs[i]}) {
        if (id == kNoValue) continue;
        TILEMESH_CHECK(
            graph_[id].type.dtype == carried.dtype && graph_[id].type.shape == carried.shape,
            where(user + " carries a value of another type"));
      }
    }
  }

  void check_call(const GraphNode& node, const std::string& user) const {
    TILEMESH_CHECK(node.def != nullptr, where(user + " has no op"));
    OpCall call = graph_.call_of(node);
    infer_outputs(call);
    TILEMESH_CHECK(call.attributes == node.attributes,
                   where(user + " has attributes that aren't in canonical form"));
    TILEMESH_CHECK(call.outputs.size() == node.outputs.size(),
                   where(fmt::format("{} has {} outputs instead of {}", user, node.outputs.size(),
                                     call.outputs.size())));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      const OperandType& type = graph_[node.outputs[i]].type;
      TILEMESH_CHECK(
          call.outputs[i].dtype == type.dtype && call.outputs[i].shape == type.shape,
          where(fmt::format("{} gives {}{}, its value is {}{}", user,
                            to_string(call.outputs[i].dtype), call.outputs[i].shape.to_string(),
                            to_string(type.dtype), type.shape.to_string())));
    }
  }

  const Graph& graph_;
  std::vector<bool> defined_;
};

}  // namespace

void Graph::check() const {
  Checker(*this).run();
}

}  // namespace tilemesh
