#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tilemesh/compiler/graph.hpp"

#include "compiler/onnx/constants.hpp"
#include "compiler/onnx/table.hpp"

namespace onnx {
class AttributeProto;
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace tilemesh::onnx_importer {

class Importer;
struct Scope;
using Value = GraphValueId;

/// Thrown where a handler must know a value that only a run will give; the importer finds out
/// which inputs it hangs on.
struct NeedsValue {
  Value value;
  std::string what;  ///< the operand's role: "shape"
};

/// One ONNX node while it is imported: its operands and attributes, and the means to build what it
/// stands for. Lives for one call of a handler, which sets every output.
class Node {
 public:
  Node(Importer& importer, Scope& scope, const onnx::NodeProto& proto, const OnnxOp& row,
       int version, std::vector<Value> inputs);

  const OnnxOp& row() const { return row_; }
  int version() const { return version_; }  ///< of the opset
  Importer& importer() { return importer_; }
  Scope& scope() { return scope_; }

  // Operands. Trailing inputs that aren't given are cut off.
  int input_count() const { return static_cast<int>(inputs_.size()); }
  const std::vector<Value>& inputs() const { return inputs_; }
  bool has(int i) const {
    return i >= 0 && i < input_count() && inputs_[static_cast<std::size_t>(i)] != kNoValue;
  }
  Value in(int i) const;  ///< throws invalid_file if it isn't given
  Value in_or_none(int i) const { return has(i) ? in(i) : kNoValue; }
  Shape shape(Value value) const;
  DType dtype(Value value) const;
  int rank(Value value) const { return shape(value).rank(); }
  bool is_constant(Value value) const;
  /// Of a value that is constant.
  const ConstantData& data(Value value) const;

  // Values known at compile time; `what` names the operand's role for the message.
  const ConstantData& known(int i, std::string_view what) const;
  std::vector<std::int64_t> known_integers(int i, std::string_view what) const;
  std::vector<double> known_numbers(int i, std::string_view what) const;
  std::int64_t known_integer(int i, std::string_view what) const;
  double known_number(int i, std::string_view what) const;

  // Attributes; a wrong type throws invalid_file.
  bool has_attribute(std::string_view name) const { return find(name) != nullptr; }
  std::int64_t integer(std::string_view name, std::int64_t fallback) const;
  double number(std::string_view name, double fallback) const;
  std::string text(std::string_view name, std::string_view fallback) const;
  std::vector<std::int64_t> integers(std::string_view name,
                                     std::vector<std::int64_t> fallback = {}) const;
  std::vector<double> numbers(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  std::optional<ConstantData> tensor(std::string_view name) const;
  const onnx::GraphProto& graph(std::string_view name) const;
  std::int64_t required_integer(std::string_view name) const;
  std::vector<std::int64_t> required_integers(std::string_view name) const;

  // Checks.
  /// `axis` counted from the front; throws outside [-rank, rank).
  std::int64_t normal_axis(std::int64_t axis, int rank) const;
  /// The attribute "axis", normalised.
  std::int64_t axis(std::int64_t fallback, int rank) const {
    return normal_axis(integer("axis", fallback), rank);
  }
  /// Each normalised, no two the same.
  std::vector<std::int64_t> normal_axes(std::vector<std::int64_t> axes, int rank) const;
  [[noreturn]] void invalid(const std::string& message) const;
  [[noreturn]] void unsupported(const std::string& message) const;

  // Building. What hangs on constants alone is computed at once.
  Value emit(std::string_view op, std::vector<Value> inputs, Attributes attributes = {});
  std::vector<Value> emit_many(std::string_view op, std::vector<Value> inputs,
                               Attributes attributes, int output_count);
  Value constant(ConstantData data);
  Value scalar(DType dtype, double value) { return constant(filled(dtype, {}, value)); }
  Value integers_constant(const std::vector<std::int64_t>& values);
  Value reshape(Value value, const Shape& shape);  ///< the value itself if it has the shape
  Value transpose(Value value, std::vector<std::int64_t> order);
  Value cast(Value value, DType dtype);
  Value expand(Value value, const Shape& shape);

  // Outputs.
  int output_count() const;
  bool wants(int output) const;
  void set(int output, Value value);
  void set_all(const std::vector<Value>& values);
  const std::vector<Value>& outputs() const { return outputs_; }

 private:
  const onnx::AttributeProto* find(std::string_view name) const;

  Importer& importer_;
  Scope& scope_;
  const onnx::NodeProto& proto_;
  const OnnxOp& row_;
  int version_;
  std::vector<Value> inputs_;
  std::vector<Value> outputs_;
};

}  // namespace tilemesh::onnx_importer
