#pragma once

#include <vector>

#include "tilemesh/compiler/graph.hpp"

namespace tilemesh::onnx_importer {

using Value = GraphValueId;

/// A sequence of the model, or an optional without an element: known as a whole when the model is
/// imported, so that nothing of it is left in the graph. An optional that has an element is that.
struct ValueList {
  std::vector<Value> items;
  bool is_none = false;  ///< an optional without an element
};

/// Lists are named by Values that no graph has.
inline constexpr std::uint32_t kFirstList = 0x80000000;
inline constexpr std::uint32_t kMaxLists = 0x70000000;
inline bool is_list(Value value) {
  const auto number = static_cast<std::uint32_t>(value);
  return number >= kFirstList && number - kFirstList < kMaxLists;
}

}  // namespace tilemesh::onnx_importer
