#include "compiler/onnx/testing.hpp"

#include <numeric>

#include "compiler/interpret.hpp"

namespace tilemesh::onnx_importer::testing {
namespace {

std::int64_t onnx_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return 1;
    case DType::u8: return 2;
    case DType::i8: return 3;
    case DType::u16: return 4;
    case DType::i16: return 5;
    case DType::i32: return 6;
    case DType::i64: return 7;
    case DType::boolean: return 9;
    case DType::f16: return 10;
    case DType::f64: return 11;
    case DType::u32: return 12;
    case DType::u64: return 13;
    case DType::bf16: return 16;
    case DType::f8e4m3fn: return 17;
    case DType::f8e4m3fnuz: return 18;
    case DType::f8e5m2: return 19;
    case DType::f8e5m2fnuz: return 20;
    case DType::u4: return 21;
    case DType::i4: return 22;
    case DType::f4e2m1: return 23;
    case DType::f8e8m0: return 24;
    case DType::u2: return 25;
    case DType::i2: return 26;
  }
  return 0;
}

struct AttributeWriter {
  onnx::AttributeProto& proto;

  void operator()(std::int64_t value) const {
    proto.set_type(onnx::AttributeProto::INT);
    proto.set_i(value);
  }
  void operator()(float value) const {
    proto.set_type(onnx::AttributeProto::FLOAT);
    proto.set_f(value);
  }
  void operator()(const std::string& value) const {
    proto.set_type(onnx::AttributeProto::STRING);
    proto.set_s(value);
  }
  void operator()(const Integers& values) const {
    proto.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t value : values)
      proto.add_ints(value);
  }
  void operator()(const std::vector<float>& values) const {
    proto.set_type(onnx::AttributeProto::FLOATS);
    for (const float value : values)
      proto.add_floats(value);
  }
  void operator()(const ConstantData& value) const {
    proto.set_type(onnx::AttributeProto::TENSOR);
    *proto.mutable_t() = tensor_proto("", value);
  }
  void operator()(const onnx::GraphProto& value) const {
    proto.set_type(onnx::AttributeProto::GRAPH);
    *proto.mutable_g() = value;
  }
};

}  // namespace

ConstantData floats(const Shape& shape, const std::vector<float>& values) {
  return make_constant(shape, values);
}

ConstantData integers(const Integers& values) {
  return make_constant(Shape{std::ssize(values)}, values);
}

ConstantData integer(std::int64_t value) {
  return make_constant<std::int64_t>({}, {value});
}

onnx::TensorProto tensor_proto(const std::string& name, const ConstantData& data) {
  onnx::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(static_cast<int>(onnx_type(data.dtype)));
  for (const std::int64_t size : data.shape)
    tensor.add_dims(size);
  const int bits = data.dtype == DType::f4e2m1 || data.dtype == DType::i4 || data.dtype == DType::u4
                       ? 4
                   : data.dtype == DType::i2 || data.dtype == DType::u2 ? 2
                                                                        : 8;
  if (bits == 8) {
    tensor.set_raw_data(data.bytes->data(), data.bytes->size());
    return tensor;
  }
  const std::size_t per_byte = 8 / static_cast<std::size_t>(bits);
  std::string packed((data.bytes->size() + per_byte - 1) / per_byte, '\0');
  for (std::size_t i = 0; i < data.bytes->size(); ++i) {
    const int low = std::to_integer<int>((*data.bytes)[i]) & ((1 << bits) - 1);
    const int shift = static_cast<int>(i % per_byte) * bits;
    packed[i / per_byte] = static_cast<char>(packed[i / per_byte] | (low << shift));
  }
  tensor.set_raw_data(packed);
  return tensor;
}

void set(onnx::NodeProto& node, const std::string& name, const AttributeOf& value) {
  onnx::AttributeProto& proto = *node.add_attribute();
  proto.set_name(name);
  std::visit(AttributeWriter{proto}, value);
}

onnx::NodeProto& add_node(onnx::GraphProto& graph, const std::string& op, const Names& inputs,
                          const Names& outputs,
                          const std::vector<std::pair<std::string, AttributeOf>>& attributes) {
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  for (const std::string& input : inputs)
    node.add_input(input);
  for (const std::string& output : outputs)
    node.add_output(output);
  for (const auto& [name, value] : attributes)
    set(node, name, value);
  return node;
}

Model::Model(std::int64_t opset) {
  proto.set_ir_version(8);
  proto.add_opset_import()->set_version(opset);
  proto.mutable_graph()->set_name("test");
}

void Model::input(const std::string& name, const std::vector<Dim>& dims, int onnx_type) {
  onnx::ValueInfoProto& info = *graph().add_input();
  info.set_name(name);
  auto& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(onnx_type);
  tensor.mutable_shape();
  for (const Dim& dim : dims) {
    auto& declared = *tensor.mutable_shape()->add_dim();
    if (const auto* size = std::get_if<std::int64_t>(&dim)) declared.set_dim_value(*size);
    if (const auto* symbol = std::get_if<std::string>(&dim); symbol && !symbol->empty()) {
      declared.set_dim_param(*symbol);
    }
  }
}

void Model::output(const std::string& name) {
  graph().add_output()->set_name(name);
}

void Model::initializer(const std::string& name, const ConstantData& data) {
  *graph().add_initializer() = tensor_proto(name, data);
}

onnx::NodeProto& Model::node(const std::string& op, const Names& inputs, const Names& outputs,
                             const std::vector<std::pair<std::string, AttributeOf>>& attributes) {
  return add_node(graph(), op, inputs, outputs, attributes);
}

Graph Model::import(const OnnxOptions& options) const {
  Graph graph = import_onnx_bytes(bytes(), options);
  graph.check();
  return graph;
}

Model one_node(std::int64_t opset, const std::string& op, const std::vector<Shape>& inputs,
               const std::vector<ConstantData>& constants,
               const std::vector<std::pair<std::string, AttributeOf>>& attributes,
               int output_count) {
  Model model(opset);
  Names names;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    names.push_back("x" + std::to_string(i));
    model.input(names.back(), {inputs[i].begin(), inputs[i].end()});
  }
  for (std::size_t i = 0; i < constants.size(); ++i) {
    names.push_back(constants[i].bytes ? "c" + std::to_string(i) : "");
    if (constants[i].bytes) model.initializer(names.back(), constants[i]);
  }
  Names outputs;
  for (int i = 0; i < output_count; ++i) {
    outputs.push_back("y" + std::to_string(i));
    model.output(outputs.back());
  }
  model.node(op, names, outputs, attributes);
  return model;
}

std::vector<ConstantData> run(const Model& model, const OnnxOptions& options) {
  const Graph graph = model.import(options);
  std::map<std::string, ConstantData> inputs;
  for (const GraphInput& input : graph.inputs) {
    const Shape& shape = graph[input.value].type.shape;
    std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
    std::iota(values.begin(), values.end(), 0.0F);
    inputs[input.name] = floats(shape, values);
  }
  return interpret(graph, inputs);
}

std::vector<float> run_floats(const Model& model) {
  return read_as<float>(run(model)[0]);
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "none";
}

}  // namespace tilemesh::onnx_importer::testing
