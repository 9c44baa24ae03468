#include "tilemesh/program/program.hpp"

#include "tilemesh/base/error.hpp"
#include "tilemesh/program/localise.hpp"

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
  return static_cast<ReduceOp>(op.attributes.integer_or("fill", 0));
}

OpCall shard_call(const Program& program, std::size_t i) {
  const ProgramOp& op = program.ops.at(i);
  TILEMESH_CHECK(op.kind == ProgramOp::Kind::call, "a jump is no call");
  OpCall call;
  call.def = &get_op(op.op);
  call.attributes = op.attributes;
  call.epilogue = op.epilogue;
  bool sharded = false;
  const auto types = [&](const std::vector<std::uint32_t>& values) {
    std::vector<OperandType> result;
    result.reserve(values.size());
    for (const std::uint32_t value : values) {
      result.push_back(operand_type(program, value));
      sharded |= result.back().present && !program.values[value].spec.is_replicated();
    }
    return result;
  };
  call.inputs = types(op.inputs);
  call.outputs = types(op.outputs);
  if (sharded) {
    localise(call);
  }
  return call;
}

}  // namespace tilemesh
