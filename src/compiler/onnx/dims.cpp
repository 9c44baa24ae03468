#include "compiler/onnx/dims.hpp"

#include <map>
#include <set>
#include <unordered_set>

#include <onnx/onnx_pb.h>

#include <fmt/format.h>

#include "tilemesh/base/close_names.hpp"

#include "compiler/onnx/tensor.hpp"

namespace tilemesh::onnx_importer {
namespace {

using Bound = std::map<std::string, std::int64_t>;

DeclaredInput declared_input(const onnx::ValueInfoProto& info) {
  if (!info.type().has_tensor_type()) {
    throw Error(ErrorCode::unsupported,
                fmt::format("input \"{}\" is no tensor: sequences, maps, optionals and sparse "
                            "tensors aren't supported",
                            info.name()));
  }
  const onnx::TypeProto::Tensor& type = info.type().tensor_type();
  DeclaredInput input{info.name(),
                      dtype_of(type.elem_type(), fmt::format("input \"{}\"", info.name())),
                      type.has_shape(),
                      {}};
  for (const auto& dim : type.shape().dim()) {
    DeclaredDim declared;
    if (dim.has_dim_value() && dim.dim_value() >= 0) declared.size = dim.dim_value();
    // "?" is what some exporters write for every open dim: no name, since they differ.
    if (dim.has_dim_param() && dim.dim_param() != "?") declared.symbol = dim.dim_param();
    input.dims.push_back(declared);
  }
  if (input.dims.size() > kMaxRank) {
    throw Error(ErrorCode::unsupported, fmt::format("input \"{}\" has {} dims, {} are supported",
                                                    input.name, input.dims.size(), kMaxRank));
  }
  return input;
}

std::string dims_text(const DeclaredInput& input) {
  if (!input.has_rank) return "of any rank";
  std::string text = "[";
  for (std::size_t i = 0; i < input.dims.size(); ++i)
    text += (i == 0 ? "" : ",") + input.dims[i].to_string();
  return text + "]";
}

// The shape that the options give for an input; null if they give none.
const Shape* given_shape(const DeclaredInput& input, const OnnxOptions& options) {
  const auto value = options.values.find(input.name);
  const auto shape = options.shapes.find(input.name);
  const bool has_shape = shape != options.shapes.end();
  if (value == options.values.end()) return has_shape ? &shape->second : nullptr;
  if (value->second.dtype != input.dtype) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the value of input \"{}\" is {}, the model wants {}", input.name,
                            to_string(value->second.dtype), to_string(input.dtype)));
  }
  if (has_shape && !(shape->second == value->second.shape)) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("input \"{}\" is given the shape {} and a value of shape {}", input.name,
                    shape->second.to_string(), value->second.shape.to_string()));
  }
  return &value->second.shape;
}

// Takes over the symbols that a given shape binds.
void bind_from(const DeclaredInput& input, const Shape& shape, Bound& bound) {
  const auto mismatch = [&](const std::string& why) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("input \"{}\" is {} in the model, the shape given is {}{}", input.name,
                            dims_text(input), shape.to_string(), why));
  };
  if (!input.has_rank) return;
  if (std::cmp_not_equal(input.dims.size(), shape.rank())) mismatch("");
  for (int i = 0; i < shape.rank(); ++i) {
    const DeclaredDim& dim = input.dims[static_cast<std::size_t>(i)];
    if (dim.size >= 0 && dim.size != shape[i]) mismatch("");
    if (dim.size >= 0 || dim.symbol.empty()) continue;
    const auto [known, is_new] = bound.emplace(dim.symbol, shape[i]);
    if (!is_new && known->second != shape[i]) {
      mismatch(fmt::format(": \"{}\" is {} elsewhere", dim.symbol, known->second));
    }
  }
}

void check_names(const std::vector<DeclaredInput>& inputs, const OnnxOptions& options) {
  std::set<std::string> names;
  std::string list;
  for (const DeclaredInput& input : inputs) {
    names.insert(input.name);
    list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", input.name);
  }
  const auto check = [&](const std::string& name, const char* what) {
    if (names.contains(name)) return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the model has no input \"{}\" to take a {}: its inputs are {}{}", name,
                            what, list, did_you_mean(name, {names.begin(), names.end()})));
  };
  for (const auto& [name, shape] : options.shapes)
    check(name, "shape");
  for (const auto& [name, value] : options.values)
    check(name, "value");
}

// Collects what stays open, and how to bind it.
class OpenDims {
 public:
  void add_symbol(const std::string& symbol, const DeclaredInput& input) {
    if (symbols_.insert(symbol).second) add_flag(fmt::format("--dim {}=N", symbol));
    note(input);
  }
  void add_input(const DeclaredInput& input) {
    std::string text;
    for (const DeclaredDim& dim : input.dims)
      text += (text.empty() ? "" : ",") + (dim.size >= 0 ? std::to_string(dim.size) : "N");
    add_flag(fmt::format("--shape {}={}", input.name, input.has_rank ? text : "N,..."));
    note(input);
  }
  void raise() const {
    if (flags_.empty()) return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the model leaves dims open: {}: bind them with {}", inputs_, flags_));
  }

 private:
  void add_flag(const std::string& flag) { flags_ += (flags_.empty() ? "" : " ") + flag; }
  void note(const DeclaredInput& input) {
    if (!noted_.insert(input.name).second) return;
    inputs_ += fmt::format("{}input \"{}\" is {}", inputs_.empty() ? "" : ", ", input.name,
                           dims_text(input));
  }

  std::set<std::string> symbols_, noted_;
  std::string inputs_, flags_;
};

}  // namespace

std::string DeclaredDim::to_string() const {
  if (size >= 0) return std::to_string(size);
  return symbol.empty() ? "?" : symbol;
}

std::vector<DeclaredInput> declared_inputs(const onnx::GraphProto& graph) {
  std::unordered_set<std::string_view> initializers;
  for (const auto& tensor : graph.initializer())
    initializers.insert(tensor.name());
  for (const auto& tensor : graph.sparse_initializer())
    initializers.insert(tensor.values().name());
  std::vector<DeclaredInput> inputs;
  for (const auto& info : graph.input()) {
    if (!initializers.contains(info.name())) inputs.push_back(declared_input(info));
  }
  return inputs;
}

std::vector<Shape> bind_shapes(const std::vector<DeclaredInput>& inputs,
                               const OnnxOptions& options) {
  check_names(inputs, options);
  Bound bound = options.dims;
  std::vector<const Shape*> given;
  for (const DeclaredInput& input : inputs) {
    given.push_back(given_shape(input, options));
    if (given.back() != nullptr) bind_from(input, *given.back(), bound);
  }
  OpenDims open;
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (given[i] != nullptr) {
      shapes.push_back(*given[i]);
      continue;
    }
    Dims sizes;
    bool unnamed = !inputs[i].has_rank;
    for (const DeclaredDim& dim : inputs[i].dims) {
      const auto known = bound.find(dim.symbol);
      const bool is_bound = !dim.symbol.empty() && known != bound.end();
      sizes.push_back(dim.size >= 0 ? dim.size : is_bound ? known->second : 0);
      if (dim.size < 0 && dim.symbol.empty()) unnamed = true;
      if (dim.size < 0 && !dim.symbol.empty() && !is_bound && !unnamed) {
        open.add_symbol(dim.symbol, inputs[i]);
      }
    }
    if (unnamed) open.add_input(inputs[i]);
    shapes.emplace_back(sizes);
  }
  open.raise();
  return shapes;
}

}  // namespace tilemesh::onnx_importer
