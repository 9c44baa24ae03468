#pragma once

#include <vector>

#include "tilemesh/compiler/compile.hpp"

namespace tilemesh {

/// The values that a rule names.
std::vector<GraphValueId> values_of(const ShardRule& rule, const Graph& graph);

/// For each graph the rules that name something in it. Throws not_found for a rule that names
/// nothing in any.
std::vector<std::vector<ShardRule>> rules_by_graph(const std::vector<Graph>& graphs,
                                                   const std::vector<ShardRule>& rules);

/// "--shard x=0@1"
std::string to_string(const ShardRule& rule);

}  // namespace tilemesh
