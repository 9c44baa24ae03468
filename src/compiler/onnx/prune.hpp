#pragma once

#include "tilemesh/compiler/graph.hpp"

namespace tilemesh::onnx_importer {

/// The graph without the values that nothing uses (constants folded away, sides of branches that
/// failed), renumbered.
Graph pruned(const Graph& graph);

}  // namespace tilemesh::onnx_importer
