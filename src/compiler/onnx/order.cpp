#include "compiler/onnx/order.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <onnx/onnx_pb.h>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh::onnx_importer {
namespace {

using NodeProtos = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using NameSet = std::unordered_set<std::string_view>;

// Calls `visit` with every subgraph of a node, const or not.
template <class Node, class Visitor>
void for_subgraphs(Node& node, const Visitor& visit) {
  const auto visit_attribute = [&](auto& attribute) {
    if constexpr (std::is_const_v<Node>) {
      if (attribute.has_g()) visit(attribute.g());
      for (const onnx::GraphProto& graph : attribute.graphs())
        visit(graph);
    } else {
      if (attribute.has_g()) visit(*attribute.mutable_g());
      for (onnx::GraphProto& graph : *attribute.mutable_graphs())
        visit(graph);
    }
  };
  if constexpr (std::is_const_v<Node>) {
    for (const onnx::AttributeProto& attribute : node.attribute())
      visit_attribute(attribute);
  } else {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute())
      visit_attribute(attribute);
  }
}

void add_reads(const onnx::NodeProto& node, NameSet& names);

// What a subgraph reads that it doesn't define: its own names may be those of the graph around it.
void add_reads(const onnx::GraphProto& graph, NameSet& names) {
  NameSet own;
  NameSet read;
  for (const auto& input : graph.input())
    own.insert(input.name());
  for (const onnx::TensorProto& tensor : graph.initializer())
    own.insert(tensor.name());
  for (const onnx::SparseTensorProto& tensor : graph.sparse_initializer())
    own.insert(tensor.values().name());
  for (const onnx::NodeProto& node : graph.node()) {
    own.insert(node.output().begin(), node.output().end());
    add_reads(node, read);
  }
  for (const auto& output : graph.output())
    read.insert(output.name());
  std::copy_if(read.begin(), read.end(), std::inserter(names, names.end()),
               [&](std::string_view name) { return !own.contains(name); });
}

void add_reads(const onnx::NodeProto& node, NameSet& names) {
  names.insert(node.input().begin(), node.input().end());
  for_subgraphs(node, [&](const onnx::GraphProto& graph) { add_reads(graph, names); });
}

// One graph's nodes, and which of them each needs.
class Order {
 public:
  explicit Order(NodeProtos& nodes)
      : nodes_(nodes), needs_(static_cast<std::size_t>(nodes.size())) {
    std::unordered_map<std::string_view, int> makers;
    for (int i = 0; i < nodes.size(); ++i) {
      for (const std::string& output : nodes[i].output()) {
        if (!output.empty()) makers.emplace(output, i);
      }
    }
    for (int i = 0; i < nodes.size(); ++i) {
      NameSet names;
      add_reads(nodes[i], names);
      for (const std::string_view name : names) {
        const auto maker = makers.find(name);
        if (maker == makers.end()) continue;
        needs_[static_cast<std::size_t>(i)].push_back({maker->second, maker->first});
        in_order_ = in_order_ && maker->second < i;
      }
    }
  }

  // Each time the first of those whose operands are there.
  void sort() {
    if (in_order_) return;
    std::vector<std::vector<int>> readers(needs_.size());
    std::vector<std::size_t> open(needs_.size());
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (std::size_t i = 0; i < needs_.size(); ++i) {
      open[i] = needs_[i].size();
      if (open[i] == 0) ready.push(static_cast<int>(i));
      for (const Need& need : needs_[i])
        readers[static_cast<std::size_t>(need.maker)].push_back(static_cast<int>(i));
    }
    std::vector<int> order;
    while (!ready.empty()) {
      order.push_back(ready.top());
      ready.pop();
      for (const int reader : readers[static_cast<std::size_t>(order.back())]) {
        if (--open[static_cast<std::size_t>(reader)] == 0) ready.push(reader);
      }
    }
    if (order.size() < needs_.size()) throw_cycle(open);
    apply(order);
  }

 private:
  struct Need {
    int maker = 0;
    std::string_view name;
  };

  void apply(const std::vector<int>& order) {
    std::vector<onnx::NodeProto*> all(order.size());
    nodes_.ExtractSubrange(0, nodes_.size(), all.data());
    for (const int i : order)
      nodes_.AddAllocated(all[static_cast<std::size_t>(i)]);
  }

  // From a node that waits to one that it waits for, until one comes again.
  [[noreturn]] void throw_cycle(const std::vector<std::size_t>& open) const {
    constexpr std::size_t kNamed = 10;
    std::unordered_map<int, std::size_t> seen;
    std::vector<std::string_view> values;
    const auto waits = [&](int node) {
      return open[static_cast<std::size_t>(node)] > 0;
    };
    int at = 0;
    while (!waits(at))
      ++at;
    while (seen.emplace(at, values.size()).second) {
      const auto& needs = needs_[static_cast<std::size_t>(at)];
      const auto need = std::find_if(needs.begin(), needs.end(),
                                     [&](const Need& each) { return waits(each.maker); });
      values.push_back(need->name);
      at = need->maker;
    }
    values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(seen[at]));
    std::string text = fmt::format("\"{}\"", values.back());
    for (std::size_t i = 0; i < std::min(values.size(), kNamed); ++i)
      text += fmt::format("{} is made from \"{}\"", i == 0 ? "" : ", which", values[i]);
    if (values.size() > kNamed) text += fmt::format(" and so on, {} values", values.size());
    throw Error(ErrorCode::invalid_file, "the graph has a cycle: " + text);
  }

  NodeProtos& nodes_;
  std::vector<std::vector<Need>> needs_;
  bool in_order_ = true;
};

void sort(NodeProtos& nodes) {
  for (onnx::NodeProto& node : nodes)
    for_subgraphs(node, [](onnx::GraphProto& graph) { sort(*graph.mutable_node()); });
  Order(nodes).sort();
}

}  // namespace

void sort_nodes(onnx::ModelProto& model) {
  sort(*model.mutable_graph()->mutable_node());
  for (onnx::FunctionProto& function : *model.mutable_functions())
    sort(*function.mutable_node());
}

}  // namespace tilemesh::onnx_importer
