#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tilemesh/compiler/graph.hpp"
#include "tilemesh/types/dtype_traits.hpp"

namespace tilemesh {

/// Makes a graph op by op, without ONNX. Every call checks shapes at once and throws
/// invalid_argument naming the op. Not thread-safe. A Value belongs to its builder.
class ProgramBuilder {
 public:
  struct Value {
    GraphValueId id = kNoValue;
  };
  struct OutputOptions {
    Value alias = {};  ///< the input whose storage it takes over
    Space space = Space::dram;
    /// One per mesh axis, `partial` for parts that are left to be reduced; empty: the compiler
    /// decides.
    Placements placements = {};
  };

  explicit ProgramBuilder(std::string name);

  /// Shape, dtype, placements and space of `spec` are used; the compiler decides the layout unless
  /// spec.layout is set.
  Value input(std::string name, const TensorSpec& spec, InputKind kind = InputKind::activation);
  void output(std::string name, Value value, const OutputOptions& options);
  void output(std::string name, Value value) { output(std::move(name), value, OutputOptions{}); }

  /// A scalar of rank 0.
  template <class T>
  Value constant(T value) {
    return constant_bytes(kDTypeOf<T>, Shape{}, std::as_bytes(std::span<const T>(&value, 1)));
  }
  template <class T>
  Value constant(const std::vector<T>& values, const Shape& shape) {
    return constant_bytes(kDTypeOf<T>, shape, std::as_bytes(std::span<const T>(values)));
  }
  Value constant_bytes(DType dtype, const Shape& shape, std::span<const std::byte> bytes);

  /// Any op of the table.
  std::vector<Value> op(std::string_view name, const std::vector<Value>& inputs,
                        Attributes attributes = {}, int output_count = 0);
  Value add(Value a, Value b) { return op("add", {a, b})[0]; }
  Value sub(Value a, Value b) { return op("sub", {a, b})[0]; }
  Value mul(Value a, Value b) { return op("mul", {a, b})[0]; }
  Value div(Value a, Value b) { return op("div", {a, b})[0]; }
  Value relu(Value x) { return op("relu", {x})[0]; }
  Value sigmoid(Value x) { return op("sigmoid", {x})[0]; }
  Value tanh(Value x) { return op("tanh", {x})[0]; }
  Value exp(Value x) { return op("exp", {x})[0]; }
  Value matmul(Value a, Value b) { return op("matmul", {a, b})[0]; }
  Value transpose(Value x, std::vector<std::int64_t> order);
  Value reshape(Value x, const Shape& shape);
  Value softmax(Value x, int axis);
  /// The same tensor in these placements, one per axis of the mesh that the program is compiled
  /// for: a collective where it lies otherwise, nothing on one device.
  Value reshard(Value x, const Placements& placements);
  Value conv(Value x, Value weights, Value bias, Attributes attributes);
  const Shape& shape(Value value) const;

  /// Takes the graph; the builder is empty afterwards.
  Graph build();

 private:
  Graph graph_;
};

}  // namespace tilemesh
