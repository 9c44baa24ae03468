#pragma once

#include "compiler/onnx/node.hpp"

namespace tilemesh::onnx_importer {

/// Which inputs of a node of the attention family hold what; -1: it has no such input.
struct AttentionInputs {
  int mask = -1;
  int past = -1;
  int bias = -1;
};

/// Attention on queries, keys and values that lie beside each other in the last dim of `projected`,
/// by the node's attributes; sets the node's outputs.
void attend_projected(Node& node, Value projected, const AttentionInputs& inputs);

}  // namespace tilemesh::onnx_importer
