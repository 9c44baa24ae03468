#include "compiler/onnx/node.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "compiler/onnx/importer.hpp"

namespace tilemesh::onnx_importer {
namespace {

// The attribute if it has the wanted type. Models of IR version 1 and 2 didn't write the type, so
// one without it goes by the field that is there.
template <class HasField>
const onnx::AttributeProto* typed(const onnx::AttributeProto* attribute,
                                  onnx::AttributeProto::AttributeType type,
                                  const HasField& has_field) {
  if (attribute == nullptr) return nullptr;
  const bool untyped = attribute->type() == onnx::AttributeProto::UNDEFINED;
  if (untyped ? has_field(*attribute) : attribute->type() == type) return attribute;
  throw Error(ErrorCode::invalid_file,
              fmt::format("the attribute \"{}\" has the type {}, {} is wanted", attribute->name(),
                          onnx::AttributeProto::AttributeType_Name(attribute->type()),
                          onnx::AttributeProto::AttributeType_Name(type)));
}

}  // namespace

Node::Node(Importer& importer, Scope& scope, const onnx::NodeProto& proto, const OnnxOp& row,
           int version, std::vector<Value> inputs)
    : importer_(importer),
      scope_(scope),
      proto_(proto),
      row_(row),
      version_(version),
      inputs_(std::move(inputs)),
      outputs_(static_cast<std::size_t>(proto.output_size()), kNoValue) {}

Value Node::in(int i) const {
  if (!has(i)) {
    throw Error(ErrorCode::invalid_file,
                fmt::format("input {} isn't given, it has {}", i, input_count()));
  }
  return inputs_[static_cast<std::size_t>(i)];
}

Shape Node::shape(Value value) const {
  Importer::require_tensor(value);
  return importer_.graph()[value].type.shape;
}

DType Node::dtype(Value value) const {
  Importer::require_tensor(value);
  return importer_.graph()[value].type.dtype;
}

bool Node::is_constant(Value value) const {
  Importer::require_tensor(value);
  return importer_.graph().is_constant(value);
}

const ConstantData& Node::data(Value value) const {
  TILEMESH_CHECK(is_constant(value), "a value that isn't constant has no data");
  return *importer_.graph()[value].constant;
}

const ConstantData& Node::known(int i, std::string_view what) const {
  const Value value = in(i);
  if (!is_constant(value)) throw NeedsValue{value, std::string(what)};
  return *importer_.graph()[value].constant;
}

std::vector<std::int64_t> Node::known_integers(int i, std::string_view what) const {
  const ConstantData& data = known(i, what);
  if (!is_integer(data.dtype) || data.shape.rank() > 1) {
    invalid(fmt::format("its {} must be a list of integers, not {}{}", what, to_string(data.dtype),
                        data.shape.to_string()));
  }
  return read_as<std::int64_t>(data);
}

std::vector<double> Node::known_numbers(int i, std::string_view what) const {
  return read_as<double>(known(i, what));
}

std::int64_t Node::known_integer(int i, std::string_view what) const {
  const ConstantData& data = known(i, what);
  if (data.shape.element_count() != 1) {
    invalid(fmt::format("its {} must be one number, not {}", what, data.shape.to_string()));
  }
  return read_as<std::int64_t>(data)[0];
}

double Node::known_number(int i, std::string_view what) const {
  const ConstantData& data = known(i, what);
  if (data.shape.element_count() != 1) {
    invalid(fmt::format("its {} must be one number, not {}", what, data.shape.to_string()));
  }
  return read_as<double>(data)[0];
}

const onnx::AttributeProto* Node::find(std::string_view name) const {
  for (const onnx::AttributeProto& attribute : proto_.attribute()) {
    if (attribute.name() != name) continue;
    if (attribute.ref_attr_name().empty()) return &attribute;
    if (scope_.attributes == nullptr) return nullptr;
    const auto given = scope_.attributes->find(attribute.ref_attr_name());
    return given == scope_.attributes->end() ? nullptr : given->second;
  }
  return nullptr;
}

std::int64_t Node::integer(std::string_view name, std::int64_t fallback) const {
  const auto* attribute =
      typed(find(name), onnx::AttributeProto::INT, [](const auto& a) { return a.has_i(); });
  return attribute == nullptr ? fallback : attribute->i();
}

double Node::number(std::string_view name, double fallback) const {
  const auto* attribute =
      typed(find(name), onnx::AttributeProto::FLOAT, [](const auto& a) { return a.has_f(); });
  return attribute == nullptr ? fallback : static_cast<double>(attribute->f());
}

std::string Node::text(std::string_view name, std::string_view fallback) const {
  const auto* attribute =
      typed(find(name), onnx::AttributeProto::STRING, [](const auto& a) { return a.has_s(); });
  return attribute == nullptr ? std::string(fallback) : attribute->s();
}

std::vector<std::int64_t> Node::integers(std::string_view name,
                                         std::vector<std::int64_t> fallback) const {
  const auto* attribute =
      typed(find(name), onnx::AttributeProto::INTS, [](const auto&) { return true; });
  if (attribute == nullptr) return fallback;
  return {attribute->ints().begin(), attribute->ints().end()};
}

std::vector<double> Node::numbers(std::string_view name) const {
  const auto* attribute =
      typed(find(name), onnx::AttributeProto::FLOATS, [](const auto&) { return true; });
  if (attribute == nullptr) return {};
  return {attribute->floats().begin(), attribute->floats().end()};
}

std::vector<std::string> Node::texts(std::string_view name) const {
  const auto* attribute =
      typed(find(name), onnx::AttributeProto::STRINGS, [](const auto&) { return true; });
  if (attribute == nullptr) return {};
  return {attribute->strings().begin(), attribute->strings().end()};
}

std::optional<ConstantData> Node::tensor(std::string_view name) const {
  const auto* attribute =
      typed(find(name), onnx::AttributeProto::TENSOR, [](const auto& a) { return a.has_t(); });
  if (attribute == nullptr) return std::nullopt;
  return importer_.read(attribute->t());
}

const onnx::GraphProto& Node::graph(std::string_view name) const {
  const auto* attribute =
      typed(find(name), onnx::AttributeProto::GRAPH, [](const auto& a) { return a.has_g(); });
  if (attribute == nullptr) {
    throw Error(ErrorCode::invalid_file, fmt::format("it lacks the attribute \"{}\"", name));
  }
  return attribute->g();
}

std::int64_t Node::required_integer(std::string_view name) const {
  if (!has_attribute(name)) {
    throw Error(ErrorCode::invalid_file, fmt::format("it lacks the attribute \"{}\"", name));
  }
  return integer(name, 0);
}

std::vector<std::int64_t> Node::required_integers(std::string_view name) const {
  if (!has_attribute(name)) {
    throw Error(ErrorCode::invalid_file, fmt::format("it lacks the attribute \"{}\"", name));
  }
  return integers(name);
}

std::int64_t Node::normal_axis(std::int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank) {
    invalid(fmt::format("axis {} is outside [{}, {}]", axis, -rank, rank - 1));
  }
  return axis < 0 ? axis + rank : axis;
}

std::vector<std::int64_t> Node::normal_axes(std::vector<std::int64_t> axes, int rank) const {
  std::set<std::int64_t> seen;
  for (std::int64_t& axis : axes) {
    axis = normal_axis(axis, rank);
    if (!seen.insert(axis).second) invalid(fmt::format("axis {} is named twice", axis));
  }
  return axes;
}

void Node::invalid(const std::string& message) const {
  throw Error(ErrorCode::invalid_argument, message);
}

void Node::unsupported(const std::string& message) const {
  throw Error(ErrorCode::unsupported, message);
}

Value Node::emit(std::string_view op, std::vector<Value> inputs, Attributes attributes) {
  return emit_many(op, std::move(inputs), std::move(attributes), 1)[0];
}

std::vector<Value> Node::emit_many(std::string_view op, std::vector<Value> inputs,
                                   Attributes attributes, int output_count) {
  return importer_.emit(op, std::move(inputs), std::move(attributes), output_count);
}

Value Node::constant(ConstantData data) {
  return importer_.add_constant(std::move(data));
}

Value Node::integers_constant(const std::vector<std::int64_t>& values) {
  return constant(make_constant(Shape{static_cast<std::int64_t>(values.size())}, values));
}

Value Node::reshape(Value value, const Shape& shape) {
  if (this->shape(value) == shape) return value;
  return emit("reshape", {value},
              {{"shape", std::vector<std::int64_t>(shape.begin(), shape.end())}});
}

Value Node::transpose(Value value, std::vector<std::int64_t> order) {
  if (std::is_sorted(order.begin(), order.end()) && std::cmp_equal(order.size(), rank(value))) {
    return value;
  }
  return emit("transpose", {value}, {{"order", std::move(order)}});
}

Value Node::cast(Value value, DType dtype) {
  if (this->dtype(value) == dtype) return value;
  return emit("cast", {value}, {{"to", static_cast<std::int64_t>(dtype)}});
}

Value Node::expand(Value value, const Shape& shape) {
  if (this->shape(value) == shape) return value;
  return emit("expand", {value},
              {{"shape", std::vector<std::int64_t>(shape.begin(), shape.end())}});
}

int Node::output_count() const {
  return proto_.output_size();
}

bool Node::wants(int output) const {
  return output < output_count() && !proto_.output(output).empty();
}

void Node::set(int output, Value value) {
  if (output < output_count()) outputs_[static_cast<std::size_t>(output)] = value;
}

void Node::set_all(const std::vector<Value>& values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    set(static_cast<int>(i), values[i]);
}

}  // namespace tilemesh::onnx_importer
