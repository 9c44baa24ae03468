#pragma once

#include "compiler/onnx/node.hpp"

/// Windows that slide over images, for all operators that have one.
namespace tilemesh::onnx_importer {

/// The attributes of our conv for a node that convolves x with weights: pads are resolved.
Attributes conv_attributes(const Node& node, Value x, Value weights);
/// Those of our pools, without the ones of a single kind.
Attributes pool_attributes(const Node& node, Value x);

/// An image with its channels last as one with them as dim 1, and back.
Value to_channels_first(Node& node, Value x);
Value to_channels_last(Node& node, Value x);

}  // namespace tilemesh::onnx_importer
