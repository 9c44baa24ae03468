#pragma once

#include <cstdint>

#include "compiler/onnx/node.hpp"

namespace tilemesh::onnx_importer {

/// How the first `dim` numbers of each head are turned by angles, two numbers together: halves of
/// the head, or neighbours if `interleaved`. `cos` and `sin` broadcast to x but for their last dim,
/// which has dim / 2; `dim` 0 is the whole head.
struct Rotation {
  Value cos = kNoValue;
  Value sin = kNoValue;
  std::int64_t dim = 0;
  bool interleaved = false;
};
Value rotated(Node& node, Value x, const Rotation& rotation);

/// The elements [start, end) of the last dim, each `step`-th.
Value slice_last(Node& node, Value x, std::int64_t start, std::int64_t end, std::int64_t step = 1);

}  // namespace tilemesh::onnx_importer
