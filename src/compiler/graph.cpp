#include "tilemesh/compiler/graph.hpp"

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/math.hpp"

namespace tilemesh {

ConstantData make_constant_bytes(DType dtype, const Shape& shape,
                                 std::span<const std::byte> bytes) {
  const std::int64_t wanted = checked_mul(shape.element_count(), size_of(dtype));
  if (!std::cmp_equal(bytes.size(), wanted)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a constant {}{} wants {} bytes, got {}", to_string(dtype),
                            shape.to_string(), wanted, bytes.size()));
  }
  return {dtype, shape, std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end())};
}

GraphValueId Graph::add_value(std::string value_name, OperandType type) {
  const auto id = static_cast<GraphValueId>(narrow<std::uint32_t>(values.size()));
  TILEMESH_CHECK(id != kNoValue, "a graph has too many values");
  try {
    check_element_count(type.shape);
  } catch (const Error& error) {
    throw error.in(fmt::format("value \"{}\"", value_name));
  }
  values.push_back({.name = std::move(value_name), .type = std::move(type), .constant = nullptr});
  return id;
}

GraphValueId Graph::add_constant(std::string value_name, ConstantData data) {
  TILEMESH_CHECK(data.bytes != nullptr, "a constant without bytes");
  const std::int64_t wanted = checked_mul(data.shape.element_count(), size_of(data.dtype));
  TILEMESH_CHECK(std::cmp_equal(data.bytes->size(), wanted),
                 "a constant's bytes don't fit its shape");
  const GraphValueId id = add_value(std::move(value_name), {data.dtype, data.shape, {}, true});
  (*this)[id].constant = std::make_shared<const ConstantData>(std::move(data));
  return id;
}

OpCall Graph::call_of(const GraphNode& node) const {
  TILEMESH_CHECK(node.kind == GraphNode::Kind::call, "only calls of ops have an OpCall");
  const auto operand = [&](GraphValueId id) {
    OperandType type;
    if (id == kNoValue) {
      type.present = false;
    } else {
      type.dtype = (*this)[id].type.dtype;
      type.shape = (*this)[id].type.shape;
    }
    return type;
  };
  OpCall call{node.def, node.attributes, node.epilogue, {}, {}};
  for (const GraphValueId id : node.inputs)
    call.inputs.push_back(operand(id));
  for (const GraphValueId id : node.outputs)
    call.outputs.push_back(operand(id));
  return call;
}

void Graph::canonicalise(GraphNode& node) const {
  OpCall call = call_of(node);
  tilemesh::canonicalise(call);
  node.attributes = std::move(call.attributes);
}

namespace {

bool ends_in_fail(const GraphBlock& block) {
  return !block.nodes.empty() && block.nodes.back().kind == GraphNode::Kind::fail;
}

// Types of a branch's outputs: those of its blocks' results, which must agree.
std::vector<OperandType> branch_types(const Graph& graph, const GraphNode& node) {
  TILEMESH_CHECK(node.inputs.size() == 1 && node.blocks.size() == 2,
                 "a branch has one condition and two blocks");
  const OperandType& condition = graph[node.inputs[0]].type;
  if (condition.dtype != DType::boolean || condition.shape.element_count() != 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("branch \"{}\" wants one bool as its condition, got {}{}", node.name,
                            to_string(condition.dtype), condition.shape.to_string()));
  }
  const GraphBlock& first = *node.blocks[ends_in_fail(*node.blocks[0]) ? 1 : 0];
  const GraphBlock& second = *node.blocks[1];
  if (!ends_in_fail(second) && second.results.size() != first.results.size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the sides of branch \"{}\" give {} and {} results", node.name,
                            first.results.size(), second.results.size()));
  }
  std::vector<OperandType> types;
  for (std::size_t i = 0; i < first.results.size(); ++i) {
    const OperandType& a = graph[first.results[i]].type;
    if (!ends_in_fail(second)) {
      const OperandType& b = graph[second.results[i]].type;
      if (a.dtype != b.dtype || !(a.shape == b.shape)) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("the sides of branch \"{}\" give {}{} and {}{} as result {}: they "
                                "must be of one type, since shapes are static",
                                node.name, to_string(a.dtype), a.shape.to_string(),
                                to_string(b.dtype), b.shape.to_string(), i));
      }
    }
    types.push_back({a.dtype, a.shape, {}, true});
  }
  return types;
}

// Types of a loop's outputs: those of what it carries, which no iteration may change.
std::vector<OperandType> loop_types(const Graph& graph, const GraphNode& node) {
  constexpr std::size_t kCarried = 2;
  TILEMESH_CHECK(node.blocks.size() == 1 && node.inputs.size() > kCarried,
                 "a loop has one block, and carries its iteration's number");
  const GraphBlock& body = *node.blocks[0];
  const std::size_t count = node.inputs.size() - kCarried;
  TILEMESH_CHECK(body.parameters.size() == count && body.results.size() == count,
                 "a loop's body takes and gives another number of values than it carries");
  const auto text = [](const OperandType& type) {
    return fmt::format("{}{}", to_string(type.dtype), type.shape.to_string());
  };
  const auto require_one = [&](GraphValueId id, DType dtype, std::string_view what) {
    const OperandType& type = graph[id].type;
    if (type.dtype == dtype && type.shape.element_count() == 1) return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("loop \"{}\" wants one {} as its {}, got {}", node.name,
                            to_string(dtype), what, text(type)));
  };
  require_one(node.inputs[0], DType::boolean, "condition");
  require_one(body.results[0], DType::boolean, "condition");
  if (node.inputs[1] != kNoValue) require_one(node.inputs[1], DType::i64, "trip count");
  require_one(node.inputs[kCarried], DType::i64, "iteration's number");
  std::vector<OperandType> types;
  for (std::size_t i = 0; i < count; ++i) {
    const OperandType& first = graph[node.inputs[kCarried + i]].type;
    const GraphValueId inside = body.parameters[i];
    const OperandType& next = graph[i == 0 ? inside : body.results[i]].type;
    for (const OperandType& other : {graph[inside].type, next}) {
      if (first.dtype == other.dtype && first.shape == other.shape) continue;
      throw Error(ErrorCode::unsupported,
                  fmt::format("loop \"{}\" carries \"{}\" as {} into its first iteration, and as "
                              "{} into the next: it must keep its type, since shapes are static",
                              node.name, graph[inside].name, text(first), text(other)));
    }
    types.push_back({first.dtype, first.shape, {}, true});
  }
  return types;
}

}  // namespace

std::vector<GraphValueId> Graph::append(GraphBlock& block, GraphNode node, int output_count) {
  std::vector<OperandType> types;
  if (node.kind == GraphNode::Kind::branch) {
    types = branch_types(*this, node);
  } else if (node.kind == GraphNode::Kind::loop) {
    types = loop_types(*this, node);
  } else if (node.kind == GraphNode::Kind::call) {
    TILEMESH_CHECK(node.def != nullptr, "a call without an op");
    node.outputs.clear();
    OpCall call = call_of(node);
    call.outputs.resize(static_cast<std::size_t>(output_count));
    try {
      infer_outputs(call);
    } catch (const Error& error) {
      throw node.name.empty() ? error : error.in(fmt::format("node \"{}\"", node.name));
    }
    types = std::move(call.outputs);
    node.attributes = std::move(call.attributes);
  }
  node.outputs.clear();
  for (std::size_t i = 0; i < types.size(); ++i) {
    std::string value_name = types.size() == 1 ? node.name : fmt::format("{}.{}", node.name, i);
    node.outputs.push_back(types[i].present ? add_value(std::move(value_name), std::move(types[i]))
                                            : kNoValue);
  }
  block.nodes.push_back(std::move(node));
  return block.nodes.back().outputs;
}

}  // namespace tilemesh
