#pragma once

#include <string>
#include <vector>

#include "compiler/onnx/node.hpp"

namespace tilemesh::onnx_importer {

/// An activation of a recurrent cell: our name of it, and its parameters where it has any.
struct CellActivation {
  std::string op;
  double alpha = 0;
  double beta = 0;
};

/// The activations of each direction in turn, by the attributes of RNN, GRU, LSTM and their kin:
/// those that have parameters take them in order. `defaults` are of one direction.
std::vector<CellActivation> cell_activations(const Node& node,
                                             const std::vector<std::string>& defaults,
                                             int directions);

}  // namespace tilemesh::onnx_importer
