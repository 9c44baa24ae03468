#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <onnx/onnx_pb.h>

#include "tilemesh/compiler/compile.hpp"

#include "compiler/onnx/constants.hpp"

/// Small models for the importer's tests, made message by message.
namespace tilemesh::onnx_importer::testing {

using Names = std::vector<std::string>;
using Integers = std::vector<std::int64_t>;
/// A size, a name, or "" for neither.
using Dim = std::variant<std::int64_t, std::string>;
using AttributeOf = std::variant<std::int64_t, float, std::string, Integers, std::vector<float>,
                                 ConstantData, onnx::GraphProto>;

ConstantData floats(const Shape& shape, const std::vector<float>& values);
ConstantData integers(const Integers& values);
ConstantData integer(std::int64_t value);

onnx::TensorProto tensor_proto(const std::string& name, const ConstantData& data);
void set(onnx::NodeProto& node, const std::string& name, const AttributeOf& value);
onnx::NodeProto& add_node(onnx::GraphProto& graph, const std::string& op, const Names& inputs,
                          const Names& outputs,
                          const std::vector<std::pair<std::string, AttributeOf>>& attributes = {});

struct Model {
  explicit Model(std::int64_t opset = 17);

  void input(const std::string& name, const std::vector<Dim>& dims, int onnx_type = 1);
  void output(const std::string& name);
  void initializer(const std::string& name, const ConstantData& data);
  onnx::NodeProto& node(const std::string& op, const Names& inputs, const Names& outputs,
                        const std::vector<std::pair<std::string, AttributeOf>>& attributes = {});
  onnx::GraphProto& graph() { return *proto.mutable_graph(); }
  std::string bytes() const { return proto.SerializeAsString(); }
  Graph import(const OnnxOptions& options = {}) const;

  onnx::ModelProto proto;
};

/// A model of one node: float inputs x0, x1, ... of these shapes, constants behind them (absent
/// where bytes are null), outputs y0, y1, ...
Model one_node(std::int64_t opset, const std::string& op, const std::vector<Shape>& inputs,
               const std::vector<ConstantData>& constants,
               const std::vector<std::pair<std::string, AttributeOf>>& attributes = {},
               int output_count = 1);

/// The outputs of a model run by the references on 0, 1, 2, ... in every float input.
std::vector<ConstantData> run(const Model& model, const OnnxOptions& options = {});
std::vector<float> run_floats(const Model& model);

/// "code: message" of the Error that `body` throws; "none" if it throws none.
std::string error_of(const std::function<void()>& body);

}  // namespace tilemesh::onnx_importer::testing
