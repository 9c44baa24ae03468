#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tilemesh/ops/op.hpp"
#include "tilemesh/program/program.hpp"
#include "tilemesh/types/dtype_traits.hpp"

namespace tilemesh {

/// Row-major elements known at compile time. Shared, never changed.
struct ConstantData {
  DType dtype = DType::f32;
  Shape shape;
  std::shared_ptr<const std::vector<std::byte>> bytes;
};

/// Row-major elements as constant data; throws invalid_argument unless shape.element_count()
/// values.
ConstantData make_constant_bytes(DType dtype, const Shape& shape, std::span<const std::byte> bytes);
template <class T>
ConstantData make_constant(const std::vector<T>& values, const Shape& shape) {
  return make_constant_bytes(kDTypeOf<T>, shape, std::as_bytes(std::span<const T>(values)));
}

enum class GraphValueId : std::uint32_t {};
inline constexpr GraphValueId kNoValue{0xffffffff};

/// A value: made by one node, an input, or a constant. Types are global and row-major until layouts
/// are assigned.
struct GraphValue {
  std::string name;
  OperandType type;
  std::shared_ptr<const ConstantData> constant;  ///< null: not a constant
  /// Once partitioned; empty: replicated. Before, only of what a `reshard` makes: what it wants.
  Placements placements = {};
  std::string reason = {};  ///< why it lies so
};

struct GraphBlock;

/// One op of the table, an `if` with two blocks, or a loop with one.
///
/// A loop's inputs are whether to begin (one bool), the trip count (one i64; kNoValue: up to its
/// condition) and what it carries: first the number of the first iteration (i64[]), then any
/// values. Its block's parameters are the carried values in one iteration; its results are whether
/// to go on (one bool) and the carried values of the next iteration but for its number. Its outputs
/// are the carried values at the end. What is carried keeps its type.
struct GraphNode {
  enum class Kind : std::uint8_t { call, branch, loop, fail };
  Kind kind = Kind::call;
  const OpDef* def = nullptr;
  Attributes attributes;
  Expression epilogue;
  std::vector<GraphValueId> inputs;  ///< kNoValue: not given. branch: the condition
  std::vector<GraphValueId> outputs;
  std::string name;
  std::string message;                              ///< fail; of a reshard why it is there
  std::string implementation;                       ///< once chosen
  std::vector<std::shared_ptr<GraphBlock>> blocks;  ///< branch: if it holds, if not; loop: body
  std::int64_t limit = 0;  ///< loop: to want more iterations is an error when it runs
};

/// Nodes in order of execution, and the values that the block gives (of a branch as many as the
/// node's outputs).
struct GraphBlock {
  std::vector<GraphNode> nodes;
  std::vector<GraphValueId> parameters;  ///< of a loop
  std::vector<GraphValueId> results;
};

struct GraphInput {
  std::string name;
  GraphValueId value = kNoValue;
  InputKind kind = InputKind::activation;
  Space space = Space::dram;
  Placements placements;
};
struct GraphOutput {
  std::string name;
  GraphValueId value = kNoValue;
  int alias = -1;  ///< input whose storage it takes over
  Space space = Space::dram;
  Placements placements;
};

/// A program before decisions: static shapes, one op table, structured branches. What importers and
/// the ProgramBuilder make, what passes change, what `compile` lowers.
struct Graph {
  std::string name = "main";
  std::vector<GraphValue> values;
  std::vector<GraphInput> inputs;
  std::vector<GraphOutput> outputs;
  GraphBlock body;
  std::map<std::string, std::string> metadata;

  GraphValue& operator[](GraphValueId id) { return values[static_cast<std::size_t>(id)]; }
  const GraphValue& operator[](GraphValueId id) const {
    return values[static_cast<std::size_t>(id)];
  }
  GraphValueId add_value(std::string value_name, OperandType type);
  GraphValueId add_constant(std::string value_name, ConstantData data);
  bool is_constant(GraphValueId id) const {
    return id != kNoValue && (*this)[id].constant != nullptr;
  }
  /// Infers the node's outputs (types and values are added) and appends it to `block`.
  std::vector<GraphValueId> append(GraphBlock& block, GraphNode node, int output_count = 0);
  /// Brings a call's attributes into its op's canonical form, as append does: for whoever changes
  /// them later or puts a node in by hand.
  void canonicalise(GraphNode& node) const;
  /// The node as a call on global, row-major types.
  OpCall call_of(const GraphNode& node) const;
  /// Throws internal if ids, types or the order of definition are broken, or attributes aren't in
  /// canonical form. Run between passes in tests.
  void check() const;
};

/// One line a node, for tests and `inspect --passes`.
std::string to_string(const Graph& graph);

}  // namespace tilemesh
