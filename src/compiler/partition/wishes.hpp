#pragma once

#include <array>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tilemesh/compiler/graph.hpp"

namespace tilemesh::partition {

/// That a value be cut along a dim, along one mesh axis.
struct Wish {
  int dim = 0;
  int origin = 0;                  ///< who said so: see Wishes::origin
  const GraphNode* via = nullptr;  ///< the op through which it came; null: said of this value
};

/// Which values should be cut along which dims, as far as what was said of some follows for others
/// from the ops' factors, forwards and backwards. Along one axis a value takes the first wish that
/// reaches it; two axes never claim one dim, unless that was said so.
class Wishes {
 public:
  /// The graph must not change meanwhile.
  Wishes(const Graph& graph, const MeshShape& mesh);

  /// Text for `--explain`: "--shard x=0@0", "--auto tensor: w in columns".
  int add_origin(std::string text);
  const std::string& origin(int number) const { return origins_[static_cast<std::size_t>(number)]; }
  /// Something said of a value itself. Throws invalid_argument for a dim that it hasn't, and for
  /// two dims along one axis.
  void say(GraphValueId id, int axis, int dim, int said_by);
  void check_dim(GraphValueId id, int dim, int said_by) const;
  /// Lets everything follow from what has been said.
  void spread();

  const std::optional<Wish>& at(GraphValueId id, int axis) const {
    return wishes_[static_cast<std::size_t>(id)][static_cast<std::size_t>(axis)];
  }
  /// What was reached by the last spread(), in order.
  const std::vector<GraphValueId>& reached() const { return reached_; }
  /// "shard 1 along axis 0: --shard x=0, through \"a\", \"b\""
  std::string explain(GraphValueId id, int axis) const;

  /// Nodes that read or make a value, those in branches too.
  const std::vector<const GraphNode*>& touching(GraphValueId id) const {
    return touching_[static_cast<std::size_t>(id)];
  }
  const Factors& factors(const GraphNode& node);
  /// How many parts the dim of a value is cut into by the wishes.
  std::int64_t parts(GraphValueId id, int dim) const;

 private:
  struct Link {
    GraphValueId from, to;
    const GraphNode* node;
  };
  struct Step {
    GraphValueId id;
    int axis;
  };
  void index_block(const GraphBlock& block);
  void link_results(const GraphNode& branch, const GraphBlock& side);
  void spread_through(const GraphNode& node, GraphValueId id, int axis);
  void wish(GraphValueId id, int axis, const Wish& wish, GraphValueId from);

  const Graph* graph_;
  MeshShape mesh_;
  std::vector<std::array<std::optional<Wish>, kMaxMeshAxes>> wishes_;
  std::vector<std::vector<const GraphNode*>> touching_;
  std::vector<std::vector<Link>> links_;  // of branch results to outputs, both ways
  std::unordered_map<const GraphNode*, Factors> factors_;
  std::vector<std::string> origins_;
  std::deque<Step> pending_;
  std::vector<GraphValueId> reached_;
};

/// The cut that a factor of a node has on each of its operands.
std::optional<int> dim_of(const std::vector<int>& dims, int factor);

}  // namespace tilemesh::partition
