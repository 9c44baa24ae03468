#include "run.hpp"

#include <algorithm>
#include <optional>

#include "tilemesh/base/error.hpp"

#include "elements.hpp"

namespace tilemesh {
namespace ops {
namespace {

/// The values of a chain, element by element; operands are broadcast to `shape`.
class Chain {
 public:
  Chain(const OpCall& call, const std::byte* own, Inputs inputs, const Shape& shape)
      : steps_(call.epilogue.steps), operands_(call.inputs.size()), values_(steps_.size()) {
    if (own != nullptr) own_.emplace(own, call.outputs[0]);
    for (const ExpressionStep& step : steps_) {
      for (int k = 0; k < arity(step.fn); ++k) {
        const int operand = step.arguments[static_cast<std::size_t>(k)] - ExpressionStep::kOperand;
        if (operand < 0) continue;
        const auto i = static_cast<std::size_t>(operand);
        if (!operands_.at(i)) operands_[i].emplace(inputs[i], call.inputs[i], shape);
      }
    }
  }

  double at(std::int64_t i) {
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      const ExpressionStep& step = steps_[s];
      const double x = argument(step.arguments[0], i);
      const double y = arity(step.fn) == 2 ? argument(step.arguments[1], i) : 0;
      values_[s] = evaluate(step.fn, x, y, double{step.alpha}, double{step.beta});
    }
    return values_.back();
  }

 private:
  double argument(std::int16_t name, std::int64_t i) const {
    if (name == ExpressionStep::kResult) return (*own_)[i];
    if (name < ExpressionStep::kOperand) return values_[static_cast<std::size_t>(name)];
    return (*operands_[static_cast<std::size_t>(name - ExpressionStep::kOperand)])[i];
  }

  const std::vector<ExpressionStep>& steps_;
  std::optional<Loaded<double>> own_;
  std::vector<std::optional<Loaded<double>>> operands_;
  std::vector<double> values_;
};

/// A call's operands in row-major order: those that are so already as they are, the others as
/// unpacked copies, or room for outputs.
class RowMajor {
 public:
  RowMajor(const OpCall& call, Inputs from, Outputs to) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const OperandType& type = call.inputs[i];
      if (!type.present || type.layout.is_rows()) {
        inputs.push_back(type.present ? from[i] : nullptr);
        continue;
      }
      std::byte* room = make_room(type);
      unpack(from[i], type.dtype, type.layout, view(type, room));
      inputs.push_back(room);
    }
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      const OperandType& type = call.outputs[i];
      const bool given = type.present && to[i] != nullptr;
      outputs.push_back(!given ? nullptr : type.layout.is_rows() ? to[i] : make_room(type));
    }
  }

  static StridedView view(const OperandType& type, std::byte* data) {
    return {data, type.dtype, type.shape, row_major_strides(type.shape)};
  }

  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;

 private:
  std::byte* make_room(const OperandType& type) {
    const std::int64_t bytes = type.shape.element_count() * size_of(type.dtype);
    return rooms_.emplace_back(static_cast<std::size_t>(bytes)).data();
  }

  std::vector<std::vector<std::byte>> rooms_;
};

bool all_rows(const OpCall& call) {
  const auto plain = [](const OperandType& type) {
    return !type.present || type.layout.is_rows();
  };
  return std::ranges::all_of(call.inputs, plain) && std::ranges::all_of(call.outputs, plain);
}

}  // namespace

void apply_chain(const OpCall& call, const std::byte* own, Inputs inputs, std::byte* output) {
  const Shape& shape = call.outputs[0].shape;
  Chain chain(call, own, inputs, shape);
  auto values = zeros<double>(shape.element_count());
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    values[static_cast<std::size_t>(i)] = chain.at(i);
  }
  store(values, call.outputs[0], output);
}

}  // namespace ops

void run_reference(const OpCall& call, std::span<const std::byte* const> inputs,
                   std::span<std::byte* const> outputs) {
  TILEMESH_CHECK(inputs.size() == call.inputs.size() && outputs.size() == call.outputs.size(),
                 "a call's operands and their types differ in number");
  const bool with_epilogue = !call.epilogue.empty() && call.def->name != "map";
  if (!with_epilogue && ops::all_rows(call)) {
    call.def->reference(call, inputs, outputs);
    return;
  }
  const ops::RowMajor plain(call, inputs, outputs);
  call.def->reference(call, plain.inputs, plain.outputs);
  if (with_epilogue) ops::apply_chain(call, plain.outputs[0], plain.inputs, plain.outputs[0]);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (plain.outputs[i] == nullptr || plain.outputs[i] == outputs[i]) continue;
    const OperandType& type = call.outputs[i];
    pack(ops::RowMajor::view(type, plain.outputs[i]), type.layout, type.dtype, outputs[i]);
  }
}

}  // namespace tilemesh
