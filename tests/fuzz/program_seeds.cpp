#include "program_seeds.hpp"

#include <fmt/format.h>

#include "tilemesh/tilemesh.hpp"

#include "ops/op_cases.hpp"
#include "random_graphs/random_program.hpp"

namespace tilemesh::fuzz {
namespace {

constexpr std::uint32_t kRandomPrograms = 24;

BinaryContents contents_of(const Binary& binary) {
  return {.programs = binary.programs(),
          .constants = {binary.constants().begin(), binary.constants().end()},
          .target = binary.target(),
          .metadata = binary.metadata()};
}

/// The case's op on inputs.
Graph graph_of(const ops::testing::Case& one) {
  Graph graph;
  graph.name = "case";
  GraphNode node;
  node.def = &get_op(one.op_name());
  node.attributes = one.attributes;
  node.epilogue = one.epilogue;
  for (std::size_t i = 0; i < one.inputs.size(); ++i) {
    const OperandType& type = one.inputs[i].type;
    if (!type.present) {
      node.inputs.push_back(kNoValue);
      continue;
    }
    const std::string name = fmt::format("i{}", i);
    const GraphValueId value = graph.add_value(name, type);
    graph.inputs.push_back({.name = name, .value = value, .placements = {}});
    node.inputs.push_back(value);
  }
  const std::vector<GraphValueId> made =
      graph.append(graph.body, std::move(node), static_cast<int>(one.outputs));
  for (std::size_t i = 0; i < made.size(); ++i)
    graph.outputs.push_back({.name = fmt::format("o{}", i), .value = made[i], .placements = {}});
  return graph;
}

/// y = flag ? relu(x) : exp(x) + x
Graph branch() {
  Graph graph;
  graph.name = "branch";
  const OperandType flag{.dtype = DType::boolean, .shape = {}, .layout = {}, .present = true};
  const OperandType tensor{.dtype = DType::f32, .shape = {3, 5}, .layout = {}, .present = true};
  const GraphValueId condition = graph.add_value("flag", flag);
  const GraphValueId x = graph.add_value("x", tensor);
  graph.inputs.push_back({.name = "flag", .value = condition, .placements = {}});
  graph.inputs.push_back({.name = "x", .value = x, .placements = {}});
  const auto call = [&](GraphBlock& block, std::string_view op, std::vector<GraphValueId> inputs) {
    GraphNode node;
    node.def = &get_op(op);
    node.inputs = std::move(inputs);
    return graph.append(block, std::move(node)).front();
  };
  GraphNode node;
  node.kind = GraphNode::Kind::branch;
  node.inputs = {condition};
  node.blocks = {std::make_shared<GraphBlock>(), std::make_shared<GraphBlock>()};
  node.blocks[0]->results = {call(*node.blocks[0], "relu", {x})};
  const GraphValueId e = call(*node.blocks[1], "exp", {x});
  node.blocks[1]->results = {call(*node.blocks[1], "add", {e, x})};
  const GraphValueId y = graph.add_value("y", tensor);
  node.outputs = {y};
  graph.body.nodes.push_back(std::move(node));
  graph.outputs.push_back({.name = "y", .value = y, .placements = {}});
  return graph;
}

/// A value that every run changes in place.
Binary stateful() {
  ProgramBuilder builder("stateful");
  const auto x = builder.input("x", {.shape = {4, 3}});
  const auto state = builder.input("state", {.shape = {4, 3}}, InputKind::state);
  const auto sum = builder.add(state, x);
  builder.output("next", sum, {.alias = state, .placements = {}});
  builder.output("y", builder.tanh(sum));
  return compile({builder.build()});
}

}  // namespace

std::vector<ProgramSeed> program_seeds() {
  std::vector<ProgramSeed> seeds;
  for (const ops::testing::Case& one : ops::testing::all_cases())
    seeds.push_back({one.name, contents_of(compile({graph_of(one)}))});
  for (std::uint32_t i = 0; i < kRandomPrograms; ++i) {
    const MeshShape mesh = i % 3 == 0 ? MeshShape{1, 2} : MeshShape{1, 1};
    const testing::RandomProgram program =
        testing::random_program(i, 2 + static_cast<int>(i % 8), mesh);
    const Binary binary = compile({program.graph}, {.mesh = mesh, .shards = program.rules});
    seeds.push_back({fmt::format("random {}", i), contents_of(binary)});
  }
  seeds.push_back({"branch", contents_of(compile({branch()}))});
  seeds.push_back({"stateful", contents_of(stateful())});
  return seeds;
}

}  // namespace tilemesh::fuzz
