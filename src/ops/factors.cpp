#include "support.hpp"

namespace tilemesh::ops {
namespace {

std::vector<int> none(const OperandType& type) {
  if (!type.present) return {};
  return std::vector<int>(static_cast<std::size_t>(type.shape.rank()), Factors::kNone);
}

void put(std::vector<std::vector<int>>& operands, std::size_t operand, int dim, int factor) {
  if (operand >= operands.size() || operands[operand].empty()) return;
  operands[operand].at(static_cast<std::size_t>(dim)) = factor;
}

}  // namespace

FactorBuilder::FactorBuilder(const OpCall& call) {
  for (std::size_t i = 0; i < own_input_count(call); ++i) {
    factors_.inputs.push_back(none(call.inputs[i]));
  }
  for (const OperandType& output : call.outputs) {
    factors_.outputs.push_back(none(output));
  }
}

void FactorBuilder::input(std::size_t operand, int dim, int factor) {
  put(factors_.inputs, operand, dim, factor);
}

void FactorBuilder::output(std::size_t operand, int dim, int factor) {
  put(factors_.outputs, operand, dim, factor);
}

void FactorBuilder::share(int input_dim, int output_dim) {
  const int factor = add();
  input(0, input_dim, factor);
  output(0, output_dim, factor);
}

Factors broadcast_factors(const OpCall& call) {
  FactorBuilder builder(call);
  const Shape& out = call.outputs[0].shape;
  for (int d = 0; d < out.rank(); ++d) {
    const int factor = builder.add();
    builder.output(0, d, factor);
    for (std::size_t i = 0; i < own_input_count(call); ++i) {
      const Shape& in = call.inputs[i].shape;
      const int dim = d - (out.rank() - in.rank());
      if (call.inputs[i].present && dim >= 0 && in[dim] == out[d]) builder.input(i, dim, factor);
    }
  }
  return builder.build();
}

Factors all_but_axis(const OpCall& call, int axis) {
  FactorBuilder builder(call);
  for (int d = 0; d < call.inputs[0].shape.rank(); ++d) {
    if (d == axis) continue;
    const int factor = builder.add();
    builder.input(0, d, factor);
    for (std::size_t o = 0; o < call.outputs.size(); ++o) {
      builder.output(o, d, factor);
    }
  }
  return builder.build();
}

Factors no_factors(const OpCall& call) {
  return FactorBuilder(call).build();
}

}  // namespace tilemesh::ops
