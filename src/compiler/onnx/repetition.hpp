#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "compiler/onnx/node.hpp"

namespace tilemesh::onnx_importer {

/// What Loop and Scan have in common: a subgraph that is run again and again, on values that it
/// carries from one iteration to the next, and whose other results are put one behind the other.
struct Repetition {
  /// One iteration: whether to go on, then the carried values, then those that are gathered.
  using Body =
      std::function<std::vector<Value>(Value iteration, const std::vector<Value>& carried)>;

  Value condition = kNoValue;  ///< whether to begin; none: yes
  Value trips = kNoValue;      ///< one integer; none: until the condition fails
  std::vector<Value> initial;
  std::size_t gathered = 0;
  std::int64_t body_nodes = 0;  ///< of the subgraph, what is in it included
  Body body;
};

/// Carried values at the end, then what was gathered, along a new first dim. Unrolled where that is
/// small or where the program's loops can't do it; a loop of the program otherwise. Throws
/// unsupported, saying why, for what is neither.
std::vector<Value> repeat(Node& node, const Repetition& repetition);

}  // namespace tilemesh::onnx_importer
