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
// from it. Functions are looked into where they are called.
class NeededValues {
 public:
  explicit NeededValues(const onnx::ModelProto& model) : model_(model) {}

  void add(const NodeProtos& nodes, NameSet& needed, int depth) {
    for (int i = nodes.size() - 1; i >= 0 && ++visited_ < kMaxVisits; --i)
      add(nodes[i], needed, depth);
  }

 private:
  // Functions can call each other exponentially often; past this many nodes we stop looking.
  static constexpr int kMaxVisits = 1 << 18;
  static constexpr int kMaxDepth = 32;

  void add(const onnx::NodeProto& node, NameSet& needed, int depth) {
    for (const onnx::FunctionProto& function : model_.functions()) {
      if (function.name() == node.op_type() && function.domain() == node.domain()) {
        if (depth < kMaxDepth) add_call(node, function, needed, depth + 1);
        return;
      }
    }
    const bool all = gives_one_of(node, needed) && !gives_shape_alone(node);
    const OnnxOp* row = find_onnx_op(node.domain(), node.op_type());
    const unsigned operands = row == nullptr ? 0 : row->values_needed;
    for (int k = 0; k < node.input_size(); ++k) {
      const bool operand = k < 32 && ((operands >> k) & 1U) != 0;
      if ((all || operand) && !node.input(k).empty()) needed.insert(node.input(k));
    }
    for_subgraphs(node, [&](const onnx::GraphProto& graph) {
      for (const auto& output : graph.output()) {
        if (all) needed.insert(output.name());
      }
      add(graph.node(), needed, depth);
    });
  }

  void add_call(const onnx::NodeProto& node, const onnx::FunctionProto& function, NameSet& needed,
                int depth) {
    NameSet inner;
    for (int k = 0; k < std::min(node.output_size(), function.output_size()); ++k) {
      if (needed.contains(node.output(k))) inner.insert(function.output(k));
    }
    add(function.node(), inner, depth);
    for (int k = 0; k < std::min(node.input_size(), function.input_size()); ++k) {
      if (inner.contains(function.input(k))) needed.insert(node.input(k));
    }
  }

  const onnx::ModelProto& model_;
  int visited_ = 0;
};

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
  NeededValues(model).add(model.graph().node(), needed, 0);
  std::vector<std::string_view> inputs;
  for (const auto& input : model.graph().input()) {
    if (needed.contains(input.name())) inputs.emplace_back(input.name());
  }
  return inputs;
}

}  // namespace tilemesh::onnx_importer
