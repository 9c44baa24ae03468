#include "tilemesh/program/program.hpp"

#include "tilemesh/base/error.hpp"
#include "tilemesh/program/localise.hpp"

#include "verify.hpp"

namespace tilemesh {
namespace {

OperandType operand_type(const Program& program, std::uint32_t value) {
  OperandType type;
  if (value == ProgramOp::kAbsent || program.values.at(value).storage.kind == Storage::Kind::none) {
    type.present = false;
    return type;
  }
  const TensorSpec& spec = program.values[value].spec;
  type.dtype = spec.dtype;
  type.shape = spec.shard_shape();
  type.layout = spec.layout;
  return type;
}

/// Op `i` on operands that `type_of` gives.
template <class TypeOf>
OpCall call_on(const Program& program, std::size_t i, const TypeOf& type_of) {
  const ProgramOp& op = program.ops.at(i);
  TILEMESH_CHECK(op.kind == ProgramOp::Kind::call, "a jump is no call");
  OpCall call{&get_op(op.op), op.attributes, op.epilogue, {}, {}};
  for (const std::uint32_t value : op.inputs)
    call.inputs.push_back(type_of(value));
  for (const std::uint32_t value : op.outputs)
    call.outputs.push_back(type_of(value));
  return call;
}

}  // namespace

std::string_view to_string(InputKind kind) {
  switch (kind) {
    case InputKind::activation: return "activation";
    case InputKind::parameter: return "parameter";
    case InputKind::state: return "state";
  }
  detail::check_failed("kind", "a kind of input outside the enumeration", __FILE__, __LINE__);
}

int shard_count(const TensorSpec& spec) {
  int count = 1;
  for (int axis = 0; axis < spec.mesh.axes(); ++axis) {
    if (spec.placement(axis).is_shard()) count *= spec.mesh[axis];
  }
  return count;
}

int shard_index(const TensorSpec& spec, const MeshCoord& coord) {
  int index = 0;
  for (int axis = 0; axis < spec.mesh.axes(); ++axis) {
    if (spec.placement(axis).is_shard()) {
      index = index * spec.mesh[axis] + coord[static_cast<std::size_t>(axis)];
    }
  }
  return index;
}

bool is_reshard(const ProgramOp& op) {
  return op.kind == ProgramOp::Kind::call && op.op == "reshard";
}

ReduceOp reshard_fill(const ProgramOp& op) {
  return static_cast<ReduceOp>(op.attributes.integer("fill"));
}

OpCall shard_call(const Program& program, std::size_t i) {
  bool sharded = false;
  OpCall call = call_on(program, i, [&](std::uint32_t value) {
    const OperandType type = operand_type(program, value);
    sharded |= type.present && !program.values[value].spec.is_replicated();
    return type;
  });
  if (sharded) {
    localise(call);
  }
  type_absent_outputs(call);
  return call;
}

OpCall global_call(const Program& program, std::size_t i) {
  return call_on(program, i, [&](std::uint32_t value) {
    OperandType type = operand_type(program, value);
    if (type.present) {
      type.shape = program.values[value].spec.shape;
      type.layout = {};
    }
    return type;
  });
}

}  // namespace tilemesh
