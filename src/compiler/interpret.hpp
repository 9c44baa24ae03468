#pragma once

#include <map>
#include <string>
#include <vector>

#include "tilemesh/compiler/graph.hpp"

namespace tilemesh {

/// Runs one call on constants by the op's reference. Absent inputs are null.
std::vector<ConstantData> evaluate(const OpCall& call,
                                   const std::vector<const ConstantData*>& inputs);

/// Runs a whole graph on the host by the references: what a graph means. Slow; for tests and small
/// constant chains. Throws not_found for a missing input, kernel_failed where a `fail` is reached.
std::vector<ConstantData> interpret(const Graph& graph,
                                    const std::map<std::string, ConstantData>& inputs);

}  // namespace tilemesh
