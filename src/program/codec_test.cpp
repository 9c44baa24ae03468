#include "codec.hpp"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include "sample.hpp"

namespace tilemesh {
namespace {

std::string any_text() {
  return *rc::gen::string<std::string>();
}

template <class T>
T any_of(std::initializer_list<T> values) {
  return *rc::gen::elementOf(std::vector<T>(values));
}

double any_number() {
  return any_of({0.0, -0.0, 1.5, -1e300, 1e-310, std::numeric_limits<double>::infinity()});
}

Layout any_layout(int rank) {
  const int kind = *rc::gen::inRange(0, 4);
  if (kind == 0 || rank == 0) {
    return Layout::rows();
  }
  if (kind == 1) {
    return Layout::opaque({"cpu", any_text(), *rc::gen::inRange<std::int64_t>(0, 1 << 20)});
  }
  Layout::Order order;
  if (kind == 2) {
    for (int i = rank; i-- > 0;) {
      order.push_back(static_cast<std::int8_t>(i));
    }
  }
  Layout::Blocks blocks;
  for (int i = *rc::gen::inRange(0, 3); i > 0; --i) {
    blocks.push_back({*rc::gen::inRange(0, rank), *rc::gen::inRange(2, 40)});
  }
  return {order, blocks};
}

TensorSpec any_spec(const MeshShape& mesh) {
  TensorSpec spec;
  Dims sizes;
  for (int i = *rc::gen::inRange(0, kMaxRank + 1); i > 0; --i) {
    sizes.push_back(*rc::gen::inRange<std::int64_t>(0, 100));
  }
  spec.shape = Shape(sizes);
  spec.dtype = static_cast<DType>(*rc::gen::inRange(0, kDTypeCount));
  spec.space = any_of({Space::host, Space::dram, Space::l1});
  spec.layout = any_layout(spec.shape.rank());
  spec.mesh = mesh;
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    spec.placements.push_back(any_of(
        {replicate(), shard(0), shard(254), partial(ReduceOp::sum), partial(ReduceOp::prod)}));
  }
  return spec;
}

AttributeValue any_attribute() {
  switch (*rc::gen::inRange(0, 5)) {
    case 0: return *rc::gen::arbitrary<std::int64_t>();
    case 1: return any_number();
    case 2: return any_text();
    case 3: return *rc::gen::arbitrary<std::vector<std::int64_t>>();
    default: return std::vector<double>{any_number(), any_number()};
  }
}

ProgramOp any_op() {
  using Kind = ProgramOp::Kind;
  ProgramOp op;
  op.kind = any_of({Kind::call, Kind::jump, Kind::jump_if_false, Kind::fail});
  op.op = any_text();
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
    op.attributes.set(any_text(), any_attribute());
  }
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
    op.epilogue.steps.push_back({any_of({ScalarFn::identity, ScalarFn::celu, ScalarFn::prelu}),
                                 {*rc::gen::arbitrary<std::int16_t>(), ExpressionStep::kResult},
                                 0.5F,
                                 -2});
  }
  op.inputs = *rc::gen::arbitrary<std::vector<std::uint32_t>>();
  op.outputs = *rc::gen::arbitrary<std::vector<std::uint32_t>>();
  op.target = *rc::gen::arbitrary<std::uint32_t>();
  op.name = any_text();
  op.message = any_text();
  op.implementation = any_text();
  return op;
}

Program any_program() {
  Program program;
  program.name = any_text();
  program.mesh = any_of({MeshShape{1}, MeshShape{1, 2}, MeshShape{2, 3, 4}});
  for (int i = *rc::gen::inRange(0, 6); i > 0; --i) {
    using Kind = Storage::Kind;
    const Storage storage{any_of({Kind::input, Kind::output, Kind::workspace, Kind::none}),
                          *rc::gen::arbitrary<std::uint32_t>(),
                          *rc::gen::arbitrary<std::int64_t>()};
    program.values.push_back({any_text(), any_spec(program.mesh), storage, any_text()});
    program.inputs.push_back(
        {any_text(), *rc::gen::arbitrary<std::uint32_t>(),
         any_of({InputKind::activation, InputKind::parameter, InputKind::state})});
    program.outputs.push_back({any_text(), 3, *rc::gen::arbitrary<std::int32_t>()});
    program.constants.push_back({1, *rc::gen::arbitrary<std::uint64_t>(), 5, ~std::uint64_t{0}});
    program.ops.push_back(any_op());
  }
  program.dram_workspace_bytes = *rc::gen::arbitrary<std::int64_t>();
  program.l1_workspace_bytes = *rc::gen::arbitrary<std::int64_t>();
  return program;
}

RC_GTEST_PROP(Codec, GivesBackAnyProgram, ()) {
  std::vector<Program> programs;
  for (int i = *rc::gen::inRange(0, 3); i > 0; --i) {
    programs.push_back(any_program());
  }
  TargetInfo target;
  target.features = *rc::gen::arbitrary<std::vector<std::string>>();
  target.processor = any_text();
  target.memory_bytes = *rc::gen::arbitrary<std::int64_t>();
  const auto metadata = *rc::gen::arbitrary<std::map<std::string, std::string>>();

  const TableContents read = decode_table(encode_table(programs, target, metadata));
  RC_ASSERT(read.programs == programs);
  RC_ASSERT(read.target == target);
  RC_ASSERT(read.metadata == metadata);
}

RC_GTEST_PROP(Codec, RefusesRandomBytes, ()) {
  std::vector<std::byte> bytes;
  for (const std::uint8_t byte : *rc::gen::arbitrary<std::vector<std::uint8_t>>()) {
    bytes.push_back(static_cast<std::byte>(byte));
  }
  try {
    const TableContents read = decode_table(bytes);
    RC_ASSERT(read.programs.empty());
  } catch (const Error& error) {
    RC_ASSERT(error.code() == ErrorCode::invalid_file);
  }
}

}  // namespace
}  // namespace tilemesh
