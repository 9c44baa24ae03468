#include "compiler/onnx/importer.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "compiler/onnx/dims.hpp"
#include "compiler/onnx/live.hpp"
#include "compiler/onnx/prune.hpp"
#include "compiler/onnx/tensor.hpp"

namespace tilemesh::onnx_importer {
namespace {

constexpr std::int64_t kMaxNodes = 1 << 18;  // functions can ask for exponentially many
constexpr int kMaxCallDepth = 32;

std::string name_of(const onnx::NodeProto& proto) {
  if (!proto.name().empty()) return proto.name();
  for (const std::string& output : proto.output()) {
    if (!output.empty()) return output;
  }
  return {};
}

std::string describe(const onnx::NodeProto& proto) {
  return fmt::format("{} \"{}\"", proto.op_type(), name_of(proto));
}

// Attributes with defaults came with IR version 9 as field 11, which the library's messages may not
// know yet.
std::vector<onnx::AttributeProto> defaults_of(const onnx::FunctionProto& function) {
  constexpr int kAttributeProtos = 11;
  std::vector<onnx::AttributeProto> defaults;
  const google::protobuf::UnknownFieldSet& unknown = function.unknown_fields();
  for (int i = 0; i < unknown.field_count(); ++i) {
    const google::protobuf::UnknownField& field = unknown.field(i);
    if (field.number() != kAttributeProtos) continue;
    if (field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED ||
        !defaults.emplace_back().ParseFromString(field.length_delimited())) {
      throw Error(ErrorCode::invalid_file,
                  fmt::format("function {} has a broken attribute", function.name()));
    }
  }
  return defaults;
}

std::vector<std::string_view> views(const Names& names) {
  return {names.begin(), names.end()};
}

}  // namespace

Importer::Importer(onnx::ModelProto& model, std::filesystem::path directory,
                   const OnnxOptions& options)
    : model_(model),
      directory_(std::move(directory)),
      options_(options),
      versions_(read_versions(model.opset_import())),
      model_bytes_(static_cast<std::int64_t>(model.ByteSizeLong())) {
  for (const onnx::FunctionProto& function : model.functions()) {
    functions_[{function.domain(), function.name()}] = {&function, defaults_of(function)};
  }
}

Graph Importer::run() {
  const onnx::GraphProto& graph = model_.graph();
  graph_.name = !options_.name.empty() ? options_.name : graph.name();
  if (graph_.name.empty()) graph_.name = "main";
  for (const auto& entry : model_.metadata_props())
    graph_.metadata[entry.key()] = entry.value();
  Scope scope;
  scope.versions = &versions_;
  add_tensors(graph, scope);
  own_tensors(scope);
  add_inputs(scope);
  std::vector<std::string_view> wanted;
  for (const auto& output : graph.output())
    wanted.emplace_back(output.name());
  import_nodes(graph.node(), wanted, scope);
  for (const std::string_view name : wanted)
    add_output(std::string(name), look_up(name, scope, fmt::format("output \"{}\"", name)));
  add_count_outputs();
  problems_.raise();
  return pruned(graph_);
}

// The tensors of a sequence are outputs of their own.
void Importer::add_output(const std::string& name, Value value) {
  if (is_list(value)) {
    const ValueList items = list(value);
    for (std::size_t i = 0; i < items.items.size(); ++i)
      add_output(fmt::format("{}.{}", name, i), items.items[i]);
    return;
  }
  GraphOutput& output = graph_.outputs.emplace_back();
  output.name = name;
  output.value = value;
}

Value Importer::add_list(ValueList list) {
  TILEMESH_CHECK(lists_.size() < kMaxLists, "a model has too many sequences");
  lists_.push_back(std::move(list));
  return static_cast<Value>(kFirstList + lists_.size() - 1);
}

void Importer::require_tensor(Value value) {
  if (!is_list(value)) return;
  throw Error(ErrorCode::unsupported,
              "it reads a sequence or an optional, where a tensor is wanted");
}

const ValueList& Importer::list(Value value) const {
  return lists_.at(static_cast<std::uint32_t>(value) - kFirstList);
}

void Importer::add_inputs(Scope& scope) {
  const std::vector<DeclaredInput> inputs = declared_inputs(model_.graph());
  const std::vector<Shape> shapes = bind_shapes(inputs, options_);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = inputs[i].name;
    const auto fixed = options_.values.find(name);
    Value value = kNoValue;
    if (fixed != options_.values.end()) {
      value = graph_.add_constant(name, fixed->second);
    } else {
      value = graph_.add_value(name, {inputs[i].dtype, shapes[i], {}, true});
      GraphInput& input = graph_.inputs.emplace_back();
      input.name = name;
      input.value = value;
    }
    bind(name, value, scope);
  }
}

void Importer::add_tensors(const onnx::GraphProto& graph, Scope& scope) {
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    if (!scope.tensors.emplace(tensor.name(), StoredTensor{&tensor, nullptr}).second) {
      throw Error(ErrorCode::invalid_file,
                  fmt::format("there are two initializers \"{}\"", tensor.name()));
    }
  }
  for (const onnx::SparseTensorProto& tensor : graph.sparse_initializer())
    scope.sparse_tensors.insert(tensor.values().name());
}

// The model's own tensors are read once; those of subgraphs again where a function is inlined
// again.
void Importer::own_tensors(Scope& scope) {
  for (onnx::TensorProto& tensor : *model_.mutable_graph()->mutable_initializer())
    scope.tensors[tensor.name()].owned = &tensor;
}

ConstantData Importer::read(const onnx::TensorProto& tensor) {
  ConstantData data = read_tensor(tensor, {directory_, options_.data_root});
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) {
    model_bytes_ += static_cast<std::int64_t>(data.bytes->size());
  }
  return data;
}

Value Importer::read_stored(const std::string& name, const StoredTensor& stored) {
  const Value value = graph_.add_constant(name, read(*stored.proto));
  if (stored.owned != nullptr) {
    const std::unique_ptr<std::string> done(stored.owned->release_raw_data());
  }
  return value;
}

Value Importer::look_up(std::string_view name, Scope& innermost, const std::string& user) {
  for (Scope* scope = &innermost; scope != nullptr; scope = scope->parent) {
    if (const auto value = scope->values.find(name); value != scope->values.end()) {
      return value->second;
    }
    if (const auto tensor = scope->tensors.find(name); tensor != scope->tensors.end()) {
      const Value value = read_stored(tensor->first, tensor->second);
      scope->values.emplace(tensor->first, value);
      return value;
    }
    if (scope->sparse_tensors.contains(std::string(name))) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("{} reads \"{}\", a sparse tensor", user, name));
    }
  }
  throw Error(
      ErrorCode::invalid_file,
      fmt::format("{} reads \"{}\", which no input, initializer or node gives", user, name));
}

void Importer::bind(const std::string& name, Value value, Scope& scope) {
  if (scope.tensors.contains(name) || !scope.values.emplace(name, value).second) {
    throw Error(ErrorCode::invalid_file, fmt::format("the value \"{}\" is defined twice", name));
  }
}

void Importer::import_nodes(const NodeProtos& nodes, const std::vector<std::string_view>& wanted,
                            Scope& scope) {
  const std::vector<bool> live = live_nodes(nodes, wanted);
  for (int i = 0; i < nodes.size(); ++i) {
    if (live[static_cast<std::size_t>(i)]) import_node(nodes[i], scope);
  }
}

void Importer::import_node(const onnx::NodeProto& proto, Scope& scope) {
  if (++node_count_ > kMaxNodes) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("the model has more than {} nodes with its functions inlined", kMaxNodes));
  }
  std::vector<Value> inputs;
  for (const std::string& name : proto.input())
    inputs.push_back(name.empty() ? kNoValue : look_up(name, scope, describe(proto)));
  while (!inputs.empty() && inputs.back() == kNoValue)
    inputs.pop_back();
  const bool poisoned = std::find(inputs.begin(), inputs.end(), kPoison) != inputs.end();
  const Function* function = find_function(proto);
  const OnnxOp* row = find_onnx_op(proto.domain(), proto.op_type());
  const std::int64_t version = version_of(*scope.versions, proto.domain());
  if (row != nullptr && function == nullptr && version == 0) {
    throw Error(ErrorCode::invalid_file, "the model doesn't say which opset of ai.onnx it uses");
  }

  std::vector<Value> outputs(static_cast<std::size_t>(proto.output_size()), kPoison);
  if (!poisoned && function != nullptr) {
    outputs = call_function(proto, *function, std::move(inputs), scope);
  } else if (!poisoned && row != nullptr && row->since <= version) {
    outputs = call_handler(proto, *row, static_cast<int>(version), std::move(inputs), scope);
  } else {
    note_unknown(proto, *scope.versions);
  }
  for (int i = 0; i < proto.output_size(); ++i) {
    if (!proto.output(i).empty())
      bind(proto.output(i), outputs[static_cast<std::size_t>(i)], scope);
  }
}

std::vector<Value> Importer::call_handler(const onnx::NodeProto& proto, const OnnxOp& row,
                                          int version, std::vector<Value> inputs, Scope& scope) {
  const std::string outer_name = std::exchange(node_name_, name_of(proto));
  const std::size_t first_new = graph_.values.size();
  std::vector<Value> outputs(static_cast<std::size_t>(proto.output_size()), kPoison);
  try {
    Node node(*this, scope, proto, row, version, std::move(inputs));
    if (!row.takes_lists) std::ranges::for_each(node.inputs(), require_tensor);
    row.handler(node);
    for (int i = 0; i < proto.output_size(); ++i) {
      if (node.wants(i) && node.outputs()[static_cast<std::size_t>(i)] == kNoValue) {
        node.unsupported(fmt::format("its output {} isn't supported", i));
      }
    }
    require_counts(node);
    outputs = node.outputs();
  } catch (const NeedsValue& need) {
    note_needed(need, fmt::format("{} for its {}", describe(proto), need.what));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw error.in(describe(proto));
    problems_.add_unsupported(fmt::format("{}: {}", describe(proto), error.what()));
  }
  node_name_ = outer_name;
  for (int i = 0; i < proto.output_size(); ++i) {
    const auto id = static_cast<std::size_t>(outputs[static_cast<std::size_t>(i)]);
    if (id >= first_new && id < graph_.values.size()) graph_.values[id].name = proto.output(i);
  }
  return outputs;
}

const Function* Importer::find_function(const onnx::NodeProto& proto) const {
  const auto found = functions_.find({proto.domain(), proto.op_type()});
  return found == functions_.end() ? nullptr : &found->second;
}

std::vector<Value> Importer::call_function(const onnx::NodeProto& proto, const Function& called,
                                           std::vector<Value> inputs, Scope& outer) {
  const onnx::FunctionProto& function = *called.proto;
  if (outer.depth >= kMaxCallDepth) {
    throw Error(ErrorCode::invalid_file,
                fmt::format("function {} is called more than {} calls deep: does it call itself?",
                            proto.op_type(), kMaxCallDepth));
  }
  if (std::cmp_greater(inputs.size(), function.input_size()) ||
      proto.output_size() > function.output_size()) {
    throw Error(ErrorCode::invalid_file,
                fmt::format("{} has {} inputs and {} outputs, its function {} and {}",
                            describe(proto), inputs.size(), proto.output_size(),
                            function.input_size(), function.output_size()));
  }
  const Versions versions = read_versions(function.opset_import());
  AttributeProtos attributes;
  for (const onnx::AttributeProto& attribute : proto.attribute()) {
    const onnx::AttributeProto* given = &attribute;
    if (!attribute.ref_attr_name().empty()) {  // of the function that we are in
      if (outer.attributes == nullptr) continue;
      const auto found = outer.attributes->find(attribute.ref_attr_name());
      if (found == outer.attributes->end()) continue;
      given = found->second;
    }
    attributes[attribute.name()] = given;
  }
  for (const onnx::AttributeProto& attribute : called.defaults)
    attributes.emplace(attribute.name(), &attribute);
  Scope scope;
  scope.versions = &versions;
  scope.attributes = &attributes;
  scope.depth = outer.depth + 1;
  inputs.resize(static_cast<std::size_t>(function.input_size()), kNoValue);
  for (int i = 0; i < function.input_size(); ++i)
    bind(function.input(i), inputs[static_cast<std::size_t>(i)], scope);
  import_nodes(function.node(), views(function.output()), scope);
  std::vector<Value> outputs;
  for (int i = 0; i < proto.output_size(); ++i)
    outputs.push_back(look_up(function.output(i), scope, describe(proto)));
  return outputs;
}

std::vector<Value> Importer::inline_graph(const onnx::GraphProto& graph, Scope& outer,
                                          const std::vector<Value>& inputs) {
  if (std::cmp_greater(graph.input_size(), inputs.size())) {
    throw Error(ErrorCode::invalid_file,
                fmt::format("subgraph \"{}\" wants {} inputs, it is given {}", graph.name(),
                            graph.input_size(), inputs.size()));
  }
  Scope scope;
  scope.parent = &outer;
  scope.versions = outer.versions;
  scope.attributes = outer.attributes;
  scope.depth = outer.depth;
  add_tensors(graph, scope);
  for (int i = 0; i < graph.input_size(); ++i)
    bind(graph.input(i).name(), inputs[static_cast<std::size_t>(i)], scope);
  std::vector<std::string_view> wanted;
  for (const auto& output : graph.output())
    wanted.emplace_back(output.name());
  import_nodes(graph.node(), wanted, scope);
  std::vector<Value> results;
  for (const std::string_view name : wanted)
    results.push_back(look_up(name, scope, fmt::format("result \"{}\"", name)));
  return results;
}

}  // namespace tilemesh::onnx_importer
