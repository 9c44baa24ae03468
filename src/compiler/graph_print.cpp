#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilemesh/compiler/graph.hpp"

namespace tilemesh {
namespace {

std::string value_text(const Graph& graph, GraphValueId id) {
  if (id == kNoValue) return "-";
  const GraphValue& value = graph[id];
  if (value.constant == nullptr) return fmt::format("%{}", static_cast<std::uint32_t>(id));
  return fmt::format("#{}:{}{}", static_cast<std::uint32_t>(id), to_string(value.type.dtype),
                     value.type.shape.to_string());
}

std::string values_text(const Graph& graph, const std::vector<GraphValueId>& ids) {
  std::string text;
  for (const GraphValueId id : ids) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", value_text(graph, id));
  }
  return text;
}

std::string type_text(const OperandType& type) {
  std::string text = fmt::format("{}{}", to_string(type.dtype), type.shape.to_string());
  if (!type.layout.is_rows()) text += " " + type.layout.to_string(type.shape.rank());
  return text;
}

std::string attributes_text(const Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes.items()) {
    text += text.empty() ? " {" : ", ";
    std::visit([&](const auto& v) { text += fmt::format("{}={}", name, v); }, value);
  }
  return text.empty() ? text : text + "}";
}

void print_block(const Graph& graph, const GraphBlock& block, const std::string& indent,
                 std::string& text);

void print_node(const Graph& graph, const GraphNode& node, const std::string& indent,
                std::string& text) {
  if (node.kind == GraphNode::Kind::fail) {
    text += fmt::format("{}fail \"{}\"\n", indent, node.message);
    return;
  }
  const bool is_branch = node.kind == GraphNode::Kind::branch;
  const bool is_loop = node.kind == GraphNode::Kind::loop;
  text += fmt::format("{}{} = {}({}){}", indent, values_text(graph, node.outputs),
                      is_branch ? "if"
                      : is_loop ? "loop"
                                : node.def->name,
                      values_text(graph, node.inputs), attributes_text(node.attributes));
  if (!node.epilogue.empty()) text += fmt::format(" | {}", to_string(node.epilogue));
  const char* separator = " : ";
  for (const GraphValueId id : node.outputs) {
    if (id == kNoValue) continue;
    text += separator + type_text(graph[id].type);
    separator = ", ";
  }
  if (!node.name.empty()) text += fmt::format("  // {}", node.name);
  text += "\n";
  if (is_loop) {
    const GraphBlock& body = *node.blocks[0];
    text += fmt::format("{}do {}\n", indent, values_text(graph, body.parameters));
    print_block(graph, body, indent + "  ", text);
  }
  if (is_branch) {
    text += indent + "then\n";
    print_block(graph, *node.blocks[0], indent + "  ", text);
    text += indent + "else\n";
    print_block(graph, *node.blocks[1], indent + "  ", text);
  }
}

void print_block(const Graph& graph, const GraphBlock& block, const std::string& indent,
                 std::string& text) {
  for (const GraphNode& node : block.nodes)
    print_node(graph, node, indent, text);
  if (!block.results.empty()) {
    text += fmt::format("{}-> {}\n", indent, values_text(graph, block.results));
  }
}

}  // namespace

std::string to_string(const Graph& graph) {
  std::string text = fmt::format("graph {}\n", graph.name);
  for (const GraphInput& input : graph.inputs) {
    text += fmt::format("input {} = {} : {}\n", value_text(graph, input.value), input.name,
                        type_text(graph[input.value].type));
  }
  print_block(graph, graph.body, "", text);
  for (const GraphOutput& output : graph.outputs) {
    text += fmt::format("output {} = {} : {}", output.name, value_text(graph, output.value),
                        type_text(graph[output.value].type));
    if (output.alias >= 0) {
      text += fmt::format(" in {}", graph.inputs[static_cast<std::size_t>(output.alias)].name);
    }
    text += "\n";
  }
  return text;
}

}  // namespace tilemesh
