#include "tilemesh/compiler/program_builder.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

namespace tilemesh {

ProgramBuilder::ProgramBuilder(std::string name) {
  graph_.name = std::move(name);
}

namespace {

void check_value(const Graph& graph, ProgramBuilder::Value value, std::string_view user) {
  if (static_cast<std::size_t>(value.id) >= graph.values.size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} of program \"{}\" names a value that this builder hasn't made",
                            user, graph.name));
  }
}

template <class Named>
void check_new_name(const std::vector<Named>& named, std::string_view what, const std::string& name,
                    const Graph& graph) {
  if (name.empty()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("an {} of program \"{}\" has no name", what, graph.name));
  }
  if (std::ranges::any_of(named, [&](const Named& other) { return other.name == name; })) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("program \"{}\" has two {}s \"{}\"", graph.name, what, name));
  }
}

}  // namespace

ProgramBuilder::Value ProgramBuilder::input(std::string name, const TensorSpec& spec,
                                            InputKind kind) {
  check_new_name(graph_.inputs, "input", name, graph_);
  spec.layout.check_rank(spec.shape.rank());
  const GraphValueId id = graph_.add_value(name, {spec.dtype, spec.shape, spec.layout, true});
  graph_.inputs.push_back({std::move(name), id, kind, spec.space, spec.placements});
  return {id};
}

void ProgramBuilder::output(std::string name, Value value, const OutputOptions& options) {
  check_new_name(graph_.outputs, "output", name, graph_);
  check_value(graph_, value, fmt::format("output \"{}\"", name));
  int alias = -1;
  Space space = options.space;
  if (options.alias.id != kNoValue) {
    const auto input = std::ranges::find(graph_.inputs, options.alias.id, &GraphInput::value);
    if (input == graph_.inputs.end()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("output \"{}\" of program \"{}\" takes over the storage of a value "
                              "that is no input: name an input of kind state",
                              name, graph_.name));
    }
    alias = static_cast<int>(input - graph_.inputs.begin());
    space = input->space;
  }
  graph_.outputs.push_back({std::move(name), value.id, alias, space, options.placements});
}

ProgramBuilder::Value ProgramBuilder::reshard(Value x, const Placements& placements) {
  const Value result = op("reshard", {x})[0];
  graph_[result.id].placements = placements;
  return result;
}

ProgramBuilder::Value ProgramBuilder::constant_bytes(DType dtype, const Shape& shape,
                                                     std::span<const std::byte> bytes) {
  const std::int64_t wanted = checked_mul(shape.element_count(), size_of(dtype));
  if (!std::cmp_equal(bytes.size(), wanted)) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("a constant of {}{} in program \"{}\" wants {} bytes, got {}", to_string(dtype),
                    shape.to_string(), graph_.name, wanted, bytes.size()));
  }
  auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  return {graph_.add_constant(fmt::format("constant_{}", graph_.values.size()),
                              {dtype, shape, std::move(copy)})};
}

std::vector<ProgramBuilder::Value> ProgramBuilder::op(std::string_view name,
                                                      const std::vector<Value>& inputs,
                                                      Attributes attributes, int output_count) {
  GraphNode node;
  node.def = &get_op(name);
  node.attributes = std::move(attributes);
  node.name = fmt::format("{}_{}", name, graph_.body.nodes.size());
  for (const Value value : inputs) {
    if (value.id != kNoValue) check_value(graph_, value, fmt::format("op \"{}\"", node.name));
    node.inputs.push_back(value.id);
  }
  std::vector<Value> values;
  for (const GraphValueId id : graph_.append(graph_.body, std::move(node), output_count)) {
    values.push_back({id});
  }
  return values;
}

ProgramBuilder::Value ProgramBuilder::transpose(Value x, std::vector<std::int64_t> order) {
  return op("transpose", {x}, {{"order", std::move(order)}})[0];
}

ProgramBuilder::Value ProgramBuilder::reshape(Value x, const Shape& shape) {
  return op("reshape", {x}, {{"shape", std::vector<std::int64_t>(shape.begin(), shape.end())}})[0];
}

ProgramBuilder::Value ProgramBuilder::softmax(Value x, int axis) {
  return op("softmax", {x}, {{"axis", std::int64_t{axis}}})[0];
}

ProgramBuilder::Value ProgramBuilder::conv(Value x, Value weights, Value bias,
                                           Attributes attributes) {
  return op("conv", {x, weights, bias}, std::move(attributes))[0];
}

const Shape& ProgramBuilder::shape(Value value) const {
  check_value(graph_, value, "shape()");
  return graph_[value.id].type.shape;
}

Graph ProgramBuilder::build() {
  if (graph_.outputs.empty()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("program \"{}\" has no outputs: name them with output()", graph_.name));
  }
  Graph graph = std::move(graph_);
  graph_ = Graph{};
  graph_.name = graph.name;
  return graph;
}

}  // namespace tilemesh
