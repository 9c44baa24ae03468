#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tilemesh/compiler/graph.hpp"

namespace tilemesh::passes {

/// A `map` in the making: steps over distinct operands. Arguments of its steps are operands
/// (kOperand + index here) or earlier steps.
struct Chain {
  static constexpr std::size_t kMaxSteps = 16;
  static constexpr std::size_t kMaxOperands = 8;

  std::vector<ExpressionStep> steps;
  std::vector<GraphValueId> operands;
};

/// Index of an operand, which is added if it is new.
std::size_t operand_index(std::vector<GraphValueId>& operands, GraphValueId id,
                          std::size_t first = 0);

/// A call as a chain: a `map`, or one elementwise step on floats. None for others.
std::optional<Chain> as_chain(const Graph& graph, const GraphNode& node);

/// `user` with its operand `id` replaced by the chain that makes it.
Chain inline_chain(const Chain& producer, const Chain& user, GraphValueId id);

/// The number of steps at the front after which only the last of them is read by the steps behind
/// it, and `id` no more: where a chain may be cut. The largest such number up to `limit`; 0: none.
std::size_t cut_point(const Chain& chain, GraphValueId id, std::size_t limit);

/// The steps from `count` on, with `id` standing for step count - 1.
Chain behind(const Chain& chain, std::size_t count, GraphValueId id);

}  // namespace tilemesh::passes
