#include <algorithm>
#include <unordered_map>
#include <vector>

#include "compiler/hash.hpp"
#include "compiler/passes/graph_index.hpp"
#include "compiler/passes/pass.hpp"

namespace tilemesh::passes {
namespace {

bool is_same_call(const GraphNode& a, const GraphNode& b) {
  return a.def == b.def && a.inputs == b.inputs && a.outputs.size() == b.outputs.size() &&
         a.attributes == b.attributes && a.epilogue == b.epilogue;
}

std::uint64_t hash_call(const GraphNode& node) {
  std::vector<std::uint64_t> words{std::hash<const void*>{}(node.def), node.outputs.size()};
  for (const GraphValueId id : node.inputs)
    words.push_back(static_cast<std::uint64_t>(id));
  return hash_bytes(std::as_bytes(std::span(words)));
}

class Merger {
 public:
  explicit Merger(Graph& graph) : graph_(graph) {}

  bool run() {
    merge_constants();
    replacements_.apply(graph_);
    merge_block(graph_.body);
    replacements_.apply(graph_);
    return changed_;
  }

 private:
  void merge_constants() {
    std::vector<bool> read(graph_.values.size(), false);
    for_each_node(graph_, [&](GraphNode& node) {
      for (const GraphValueId id : node.inputs) {
        if (id != kNoValue) read[static_cast<std::size_t>(id)] = true;
      }
    });
    std::unordered_map<std::size_t, int> count_of_size;  // large weights are hashed only if need be
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      if (read[i] && graph_.values[i].constant) {
        ++count_of_size[graph_.values[i].constant->bytes->size()];
      }
    }
    std::unordered_multimap<std::uint64_t, GraphValueId> seen;
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const auto id = static_cast<GraphValueId>(i);
      if (!read[i] || !graph_.is_constant(id)) continue;
      const ConstantData& data = *graph_[id].constant;
      if (count_of_size[data.bytes->size()] == 1) continue;
      const std::uint64_t hash = hash_bytes(*data.bytes);
      const auto [first, last] = seen.equal_range(hash);
      const auto same = std::find_if(first, last, [&](const auto& entry) {
        const ConstantData& other = *graph_[entry.second].constant;
        return other.dtype == data.dtype && other.shape == data.shape &&
               *other.bytes == *data.bytes;
      });
      if (same == last) {
        seen.emplace(hash, id);
      } else {
        replacements_.replace(id, same->second);
        changed_ = true;
      }
    }
  }

  // A call is equal only to one that is executed whenever it is: one before it in its own block or
  // in a block around it.
  void merge_block(GraphBlock& block) {
    scopes_.emplace_back();
    for (GraphNode& node : block.nodes) {
      for (GraphValueId& id : node.inputs)
        id = replacements_.resolve(id);
      for (const auto& inner : node.blocks)
        merge_block(*inner);
      if (node.kind == GraphNode::Kind::call) merge_call(node);
    }
    scopes_.pop_back();
  }

  const GraphNode* find_equal(const GraphNode& node, std::uint64_t hash) const {
    for (const Calls& calls : scopes_) {
      const auto [first, last] = calls.equal_range(hash);
      const auto same = std::find_if(
          first, last, [&](const auto& entry) { return is_same_call(*entry.second, node); });
      if (same != last) return same->second;
    }
    return nullptr;
  }

  void merge_call(const GraphNode& node) {
    const std::uint64_t hash = hash_call(node);
    const GraphNode* same = find_equal(node, hash);
    if (same == nullptr) {
      scopes_.back().emplace(hash, &node);
      return;
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue || same->outputs[i] == kNoValue) continue;
      replacements_.replace(node.outputs[i], same->outputs[i]);
    }
    changed_ = true;
  }

  using Calls = std::unordered_multimap<std::uint64_t, const GraphNode*>;
  Graph& graph_;
  Replacements replacements_;
  std::vector<Calls> scopes_;
  bool changed_ = false;
};

}  // namespace

bool merge_equal(Graph& graph) {
  return Merger(graph).run();
}

}  // namespace tilemesh::passes
