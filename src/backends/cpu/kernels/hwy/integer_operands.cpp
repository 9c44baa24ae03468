#include "integer_operands.hpp"

#include <algorithm>

namespace tilemesh::cpu::highway {

RowZeros row_zeros(const OpCall& call, std::size_t operand) {
  const std::size_t place = operand + 2;
  RowZeros zeros{.place = place};
  if (place >= call.inputs.size() || !call.inputs[place].present) return zeros;
  zeros.present = true;
  zeros.is_signed = call.inputs[place].dtype == DType::i8;
  zeros.period = call.inputs[place].shape.element_count();
  return zeros;
}

std::string why_no_integer_product(const OpCall& call) {
  const auto in_rows = [](const OperandType& type) {
    return !type.present || type.layout.is_rows();
  };
  if (!std::ranges::all_of(call.inputs, in_rows) || !std::ranges::all_of(call.outputs, in_rows)) {
    return "a layout other than rows";
  }
  return call.epilogue.empty() ? "" : "an epilogue";
}

void widen_rows(const IntegerPanels& fns, const std::byte* from, bool is_signed,
                const RowZeros& zeros, std::byte* const* operands, std::int64_t rows,
                std::int64_t depth, std::int16_t* to) {
  const std::int64_t stride = even(depth);
  for (std::int64_t row = 0; row < rows; ++row, from += depth, to += stride) {
    fns.widen(from, is_signed, zeros.at(operands, row), to, depth);
    if (stride != depth) to[depth] = 0;
  }
}

}  // namespace tilemesh::cpu::highway
