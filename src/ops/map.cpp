#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "run.hpp"
#include "tables.hpp"

namespace tilemesh::ops {
namespace {

std::vector<OperandType> infer_map(const OpCall& call) {
  Shape shape = call.inputs[0].shape;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!has_input(call, i)) {
      throw Error(ErrorCode::invalid_argument, fmt::format("input {} must be given", i));
    }
    const DType dtype = call.inputs[i].dtype;
    if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("input {} wants f32, f16 or bf16, got {}", i, to_string(dtype)));
    }
    require_same_type(call, 0, i);
    shape = broadcast(shape, call.inputs[i].shape);
  }
  return {rows(call.inputs[0].dtype, shape)};
}

void run_map(const OpCall& call, Inputs inputs, Outputs outputs) {
  apply_chain(call, nullptr, inputs, outputs[0]);
}

constexpr OpDef kOps[] = {
    {.name = "map",
     .max_inputs = -1,
     .infer = infer_map,
     .factors = broadcast_factors,
     .reference = run_map},
};

}  // namespace

std::span<const OpDef> map_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
