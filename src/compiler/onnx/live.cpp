#include "compiler/onnx/live.hpp"

#include <algorithm>
#include <unordered_set>

#include "compiler/onnx/table.hpp"

namespace tilemesh::onnx_importer {
namespace {

using NodeProtos = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using NameSet = std::unordered_set<std::string_view>;

// Calls `visit` with every subgraph of a node.
template <class Visitor>
void for_subgraphs(const onnx::NodeProto& node, const Visitor& visit) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.has_g()) visit(attribute.g());
    for (const onnx::GraphProto& graph : attribute.graphs())
      visit(graph);
  }
}

// All that a node may read, its subgraphs included; their own values do no harm.
void add_reads(const onnx::NodeProto& node, NameSet& names) {
  names.insert(node.input().begin(), node.input().end());
  for_subgraphs(node, [&](const onnx::GraphProto& graph) {
    for (const onnx::NodeProto& inner : graph.node())
      add_reads(inner, names);
    for (const auto& output : graph.output())
      names.insert(output.name());
  });
}

bool gives_one_of(const onnx::NodeProto& node, const NameSet& names) {
  return std::any_of(node.output().begin(), node.output().end(), [&](const std::string& output) {
    return !output.empty() && names.contains(output);
  });
}

bool gives_shape_alone(const onnx::NodeProto& node) {
  return node.op_type() == "Shape" || node.op_type() == "Size" || node.op_type() == "EyeLike";
}

// Goes backwards: a value is needed if an op's operand must be known, or if a needed value is made
// from it.
void add_needed(const NodeProtos& nodes, NameSet& needed) {
  for (int i = nodes.size() - 1; i >= 0; --i) {
    const onnx::NodeProto& node = nodes[i];
    const bool all = gives_one_of(node, needed) && !gives_shape_alone(node);
    const OnnxOp* row = find_onnx_op(node.op_type());
    const unsigned operands = row == nullptr ? 0 : row->values_needed;
    for (int k = 0; k < node.input_size(); ++k) {
      const bool operand = k < 32 && ((operands >> k) & 1U) != 0;
      if ((all || operand) && !node.input(k).empty()) needed.insert(node.input(k));
    }
    for_subgraphs(node, [&](const onnx::GraphProto& graph) {
      for (const auto& output : graph.output()) {
        if (all) needed.insert(output.name());
      }
      add_needed(graph.node(), needed);
    });
  }
}

}  // namespace

std::vector<bool> live_nodes(const NodeProtos& nodes, const std::vector<std::string_view>& wanted) {
  NameSet names(wanted.begin(), wanted.end());
  std::vector<bool> live(static_cast<std::size_t>(nodes.size()), false);
  for (int i = nodes.size() - 1; i >= 0; --i) {
    if (!gives_one_of(nodes[i], names)) continue;
    live[static_cast<std::size_t>(i)] = true;
    add_reads(nodes[i], names);
  }
  return live;
}

std::vector<std::string_view> needed_inputs(const onnx::ModelProto& model) {
  NameSet needed;
  add_needed(model.graph().node(), needed);
  std::vector<std::string_view> inputs;
  for (const auto& input : model.graph().input()) {
    if (needed.contains(input.name())) inputs.emplace_back(input.name());
  }
  return inputs;
}

}  // namespace tilemesh::onnx_importer
