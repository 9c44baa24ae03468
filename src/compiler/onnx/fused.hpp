#pragma once

#include "compiler/onnx/node.hpp"

namespace tilemesh::onnx_importer {

/// What Conv gives for the node's inputs 0 to 2 and its attributes.
Value convolved(Node& node);
/// What Gemm gives for the node's inputs 0 to 2 and its attributes.
Value gemm_of(Node& node);

}  // namespace tilemesh::onnx_importer
