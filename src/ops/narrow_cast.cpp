#include <fmt/format.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/types/narrow.hpp"

#include "attribute_form.hpp"
#include "support.hpp"
#include "tables.hpp"

/// ONNX Cast 24 to a storage format by another rule than `cast`, which saturates.
namespace tilemesh::ops {
namespace {

void cast_narrow_form(AttributeForm& form) {
  form.dtype("to");
  form.flag("saturate", true);
  form.choice("round_mode", {"up", "down", "nearest"});
}

std::vector<OperandType> infer_cast_narrow(const OpCall& call) {
  const auto to = static_cast<DType>(call.attributes.integer("to"));
  if (!is_storage(to)) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("attribute \"to\" wants a storage format, got {}: use cast", to_string(to)));
  }
  return {rows(to, call.inputs[0].shape)};
}

void run_cast_narrow(const OpCall& call, Inputs inputs, Outputs outputs) {
  const std::string& round = call.attributes.text("round_mode");
  const NarrowRule rule = {.saturate = call.attributes.integer("saturate") != 0,
                           .round = round == "up"     ? NarrowRule::Round::up
                                    : round == "down" ? NarrowRule::Round::down
                                                      : NarrowRule::Round::nearest};
  convert_to_narrow(inputs[0], call.inputs[0].dtype, outputs[0], call.outputs[0].dtype,
                    call.inputs[0].shape.element_count(), rule);
}

constexpr OpDef kOps[] = {
    {.name = "cast_narrow",
     .canonical = cast_narrow_form,
     .infer = infer_cast_narrow,
     .factors = broadcast_factors,
     .reference = run_cast_narrow},
};

}  // namespace

std::span<const OpDef> narrow_cast_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
