// Files of every version that was ever released, written by that version. Their facts are written
// out here, so that a change of the current structs can't change what an old file should say.

#include <string>

#include <gtest/gtest.h>

#include "tilemesh/program/binary.hpp"

namespace tilemesh {
namespace {

TEST(Samples, Version1Point0IsRead) {
  const Binary binary = Binary::load(TILEMESH_TEST_DATA "/sample_v1.0.tmb");
  EXPECT_EQ(binary.program_names(), std::vector<std::string>{"sample"});
  EXPECT_EQ(binary.metadata().at("license"), "Apache-2.0");
  EXPECT_EQ(binary.metadata().at("empty"), "");
  EXPECT_EQ(binary.target().processor, "none");
  EXPECT_EQ(binary.target().features, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(binary.target().cores, 2);
  EXPECT_EQ(binary.target().dram_bytes, std::int64_t{1} << 33);

  const BoundProgram program = binary.program("sample");
  EXPECT_EQ(program->mesh, (MeshShape{1, 2}));
  EXPECT_EQ(program->dram_workspace_bytes, 128);
  EXPECT_EQ(program->l1_workspace_bytes, 64);
  ASSERT_EQ(program->inputs.size(), 3U);
  EXPECT_EQ(program->inputs[1].kind, InputKind::parameter);
  EXPECT_EQ(program->inputs[2].kind, InputKind::state);
  EXPECT_EQ(program->input_spec(0).to_string(),
            "f32[4,3] on mesh 1x2 (replicate, shard 0), rows, dram");
  EXPECT_EQ(program->input_spec(1).dtype, DType::boolean);
  ASSERT_EQ(program->outputs.size(), 2U);
  EXPECT_EQ(program->outputs[0].alias, -1);
  EXPECT_EQ(program->outputs[1].alias, 2);
  EXPECT_EQ(program->values[3].spec.layout, Layout::blocked(1, 16));
  EXPECT_EQ(program->values[5].reason, "");  // a field of 1.1
  EXPECT_EQ(program->values[5].storage, (Storage{Storage::Kind::workspace, 0, 64}));
  EXPECT_EQ(program->values[6].spec.space, Space::l1);
  EXPECT_EQ(program->constants[1].hash, 8U);
  EXPECT_EQ(program.constant(1)[31], std::byte{223});
}

TEST(Samples, Version1Point0HasItsOps) {
  const Binary binary = Binary::load(TILEMESH_TEST_DATA "/sample_v1.0.tmb");
  const std::vector<ProgramOp>& ops = binary.programs()[0].ops;
  ASSERT_EQ(ops.size(), 10U);
  EXPECT_EQ(ops[0].op, "matmul");
  EXPECT_EQ(ops[0].name, "matmul_0");
  EXPECT_EQ(ops[0].implementation, "reference");
  EXPECT_EQ(ops[0].inputs, (std::vector<std::uint32_t>{0, 3, 4}));
  EXPECT_EQ(ops[0].outputs, std::vector<std::uint32_t>{5});
  ASSERT_EQ(ops[0].epilogue.steps.size(), 2U);
  EXPECT_EQ(ops[0].epilogue.steps[1].fn, ScalarFn::leaky_relu);
  EXPECT_EQ(ops[0].epilogue.steps[1].alpha, 0.5F);
  EXPECT_EQ(ops[0].attributes.integer("transpose_a"), 0);  // the file has none
  EXPECT_EQ(ops[1].kind, ProgramOp::Kind::jump_if_false);
  EXPECT_EQ(ops[1].target, 5U);
  EXPECT_EQ(ops[2].attributes.integer("axis"), 1);
  EXPECT_EQ(ops[3].attributes.number("alpha"), 0.25);
  EXPECT_EQ(ops[5].attributes.integers("order"), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(ops[9].kind, ProgramOp::Kind::fail);
  EXPECT_EQ(ops[9].message, "never reached");
}

TEST(Samples, Version1Point1HasReshardsAndCutConstants) {
  const Binary binary = Binary::load(TILEMESH_TEST_DATA "/sample_v1.1.tmb");
  const BoundProgram program = binary.program("cut");
  EXPECT_EQ(program->mesh, (MeshShape{1, 2}));
  ASSERT_EQ(program->values.size(), 7U);
  EXPECT_EQ(program->values[1].spec.to_string(),
            "f32[6,8] on mesh 1x2 (replicate, shard 0), rows, dram");
  EXPECT_EQ(program->values[2].spec.to_string(),
            "f32[4,8] on mesh 1x2 (replicate, partial sum), rows, dram");
  EXPECT_EQ(program->values[1].reason, "as \"x\" is cut");
  EXPECT_EQ(program->values[2].reason, "");
  ASSERT_EQ(program->constants.size(), 1U);
  EXPECT_EQ(program->constants[0].bytes, 192U);
  EXPECT_EQ(program.constant(0)[95], std::byte{95});
  EXPECT_EQ(program.constant(0)[96], std::byte{100});
  ASSERT_EQ(program->ops.size(), 5U);
  EXPECT_EQ(program->ops[1].op, "reshard");
  EXPECT_EQ(program->ops[1].attributes.integer("fill"), 0);  // the file has none
  EXPECT_EQ(program->ops[3].attributes.integer("fill"), 1);
}

TEST(Samples, Version1Point2HasStorageFormats) {
  const Binary binary = Binary::load(TILEMESH_TEST_DATA "/sample_v1.2.tmb");
  const BoundProgram program = binary.program("sample");
  EXPECT_EQ(program->input_spec(1).to_string(), "i4[2,3], rows, dram");
  EXPECT_EQ(program->output_spec(1).dtype, DType::f8e5m2);
  ASSERT_EQ(program->constants.size(), 1U);
  const std::span<const std::byte> constant = program.constant(0);
  EXPECT_EQ(std::vector<std::byte>(constant.begin(), constant.end()),
            (std::vector<std::byte>{std::byte{0xf8}, std::byte{7}, std::byte{1}}));
  ASSERT_EQ(program->ops.size(), 6U);
  EXPECT_EQ(program->ops[2].attributes.integer("to"), static_cast<int>(DType::f8e4m3fn));
  EXPECT_EQ(program->ops[5].op, "cast_narrow");
  EXPECT_EQ(program->ops[5].attributes.integer("saturate"), 0);
}

}  // namespace
}  // namespace tilemesh
