#pragma once

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "compiler/partition/wishes.hpp"

namespace tilemesh::partition {

/// What a node does along one mesh axis.
struct AxisChoice {
  enum class Kind : std::uint8_t {
    whole,    ///< every device does the same on whole operands
    factor,   ///< each device does a part of a factor
    partial,  ///< parts of a reduction go through
  };
  Kind kind = Kind::whole;
  int factor = Factors::kNone;
  std::size_t input = 0;  ///< of `scales`: which input is the part
  ReduceOp op = ReduceOp::sum;
  friend bool operator==(const AxisChoice&, const AxisChoice&) = default;
};

/// How the operands of a node lie while it runs.
struct NodePlan {
  std::vector<AxisChoice> axes;
  std::vector<Placements> inputs;
  std::vector<Placements> outputs;
  std::vector<ReduceOp> fills;  ///< by input: what its padding must be, if needs_fill says so
  std::vector<bool> needs_fill;
};

/// What the choice asks about values.
struct ChoiceContext {
  const Graph& graph;
  const MeshShape& mesh;
  Wishes& wishes;
  std::function<Placements(GraphValueId)> placement;  ///< as it lies now
  /// Bytes that a device receives to have a value lie otherwise; 0 if it does, or is a constant.
  std::function<double(GraphValueId, const Placements&)> cost;
  std::function<int(GraphValueId)> uses;
};

/// The cheapest way to run a node: bytes to bring the operands there, work, and bytes to bring the
/// results to where they are wished.
NodePlan choose(const GraphNode& node, const ChoiceContext& context);

/// Bytes that a device receives when a value of this type moves so, with what meetings cost.
double reshard_cost(const OperandType& type, const MeshShape& mesh, const Placements& from,
                    const Placements& to);

}  // namespace tilemesh::partition
