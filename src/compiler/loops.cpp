#include "compiler/loops.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "compiler/views.hpp"

namespace tilemesh {
namespace {

/// Which parameter of a loop's body each value shows, and when each parameter is read for the last
/// time: the number of the node in the body, or one past all for a result.
class ParameterUses {
 public:
  ParameterUses(const PlacedGraph& placed, const GraphBlock& body)
      : placed_(placed), last_reads_(body.parameters.size(), -1) {
    for (std::size_t i = 0; i < body.parameters.size(); ++i)
      shown_[body.parameters[i]] = i;
    for (std::size_t n = 0; n < body.nodes.size(); ++n)
      visit(body.nodes[n], static_cast<int>(n));
  }

  std::optional<std::size_t> shown_by(GraphValueId id) const {
    const auto found = shown_.find(id);
    return found == shown_.end() ? std::nullopt : std::optional(found->second);
  }
  int last_read(std::size_t parameter) const { return last_reads_[parameter]; }

 private:
  void visit(const GraphNode& node, int place) {
    const bool is_view = node.kind == GraphNode::Kind::call && node.outputs.size() == 1 &&
                         is_free_view(placed_.shard_call(node));
    for (const GraphValueId id : node.inputs) {
      const auto parameter = shown_by(id);
      if (parameter && is_view) shown_[node.outputs[0]] = *parameter;
      if (parameter) last_reads_[*parameter] = place;
    }
    for (const auto& inner : node.blocks) {
      for (const GraphNode& deeper : inner->nodes)
        visit(deeper, place);
      for (const GraphValueId id : inner->results) {
        if (const auto parameter = shown_by(id)) last_reads_[*parameter] = place;
      }
    }
  }

  const PlacedGraph& placed_;
  std::unordered_map<GraphValueId, std::size_t> shown_;
  std::vector<int> last_reads_;
};

// The number of the call that makes a value by writing it; -1 if there is none.
int writer_of(const PlacedGraph& placed, const GraphBlock& body, GraphValueId id) {
  for (std::size_t n = 0; n < body.nodes.size(); ++n) {
    const GraphNode& node = body.nodes[n];
    if (std::ranges::find(node.outputs, id) == node.outputs.end()) continue;
    const bool writes = node.kind == GraphNode::Kind::call &&
                        (node.outputs.size() != 1 || !is_free_view(placed.shard_call(node)));
    return writes ? static_cast<int>(n) : -1;
  }
  return -1;
}

}  // namespace

std::vector<bool> results_in_place(const PlacedGraph& placed, const GraphBlock& body) {
  const ParameterUses uses(placed, body);
  std::vector<bool> in_place(body.results.size());
  for (std::size_t i = 1; i < body.results.size(); ++i) {
    const GraphValueId id = body.results[i];
    const bool shown_by_result = std::ranges::any_of(
        body.results, [&](GraphValueId other) { return uses.shown_by(other) == i; });
    in_place[i] = !shown_by_result && std::ranges::count(body.results, id) == 1 &&
                  writer_of(placed, body, id) > uses.last_read(i);
  }
  return in_place;
}

std::vector<bool> shows_parameter(const PlacedGraph& placed, const GraphBlock& body) {
  const ParameterUses uses(placed, body);
  std::vector<bool> shows;
  for (const GraphValueId id : body.results)
    shows.push_back(uses.shown_by(id).has_value());
  return shows;
}

}  // namespace tilemesh
