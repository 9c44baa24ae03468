#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tilemesh/base/error.hpp"

#include "sample.hpp"

namespace tilemesh {
namespace {

constexpr std::uint64_t kConstants = 224;

/// One way to break the sample, and a part of the message that it must give.
struct Breakage {
  std::string name;
  std::function<void(Program&)> apply;
  std::string message;
};

void PrintTo(const Breakage& breakage, std::ostream* out) {
  *out << breakage.name;
}

class Verify : public ::testing::TestWithParam<Breakage> {};

TEST(Verify, AcceptsTheSample) {
  EXPECT_NO_THROW(verify(sample_program(), kConstants));
}

TEST_P(Verify, NamesWhatIsBroken) {
  Program program = sample_program();
  GetParam().apply(program);
  try {
    verify(program, kConstants);
    FAIL() << "a broken program passed";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(GetParam().message));
    EXPECT_THAT(error.what(), ::testing::StartsWith("program \"" + program.name + "\""));
    EXPECT_THAT(error.code(), ::testing::AnyOf(ErrorCode::invalid_file, ErrorCode::unsupported));
  }
}

const std::vector<Breakage> kBreakages = {
    {"no_name", [](Program& p) { p.name.clear(); }, "no name"},
    {"workspace_negative", [](Program& p) { p.dram_workspace_bytes = -1; }, "dram workspace"},
    {"workspace_too_small", [](Program& p) { p.l1_workspace_bytes = 63; }, "outside their buffer"},
    {"offset_negative", [](Program& p) { p.values[5].storage.offset = -64; },
     "value 5 \"product\""},
    {"offset_huge",
     [](Program& p) { p.values[5].storage.offset = std::numeric_limits<std::int64_t>::max() - 3; },
     "outside their buffer"},
    {"offset_unaligned", [](Program& p) { p.values[5].storage.offset = 62; }, "no multiple"},
    {"input_index", [](Program& p) { p.values[0].storage.index = 9; }, "input 9"},
    {"output_index", [](Program& p) { p.values[7].storage.index = 2; }, "output 2"},
    {"constant_index", [](Program& p) { p.values[3].storage.index = 2; }, "constant 2"},
    {"owner_out_of_range", [](Program& p) { p.inputs[0].value = 99; }, "value 99"},
    {"owner_lies_elsewhere", [](Program& p) { p.inputs[0].value = 5; }, "lies elsewhere"},
    {"output_lies_elsewhere", [](Program& p) { p.outputs[0].value = 5; }, "lies elsewhere"},
    {"same_output_twice",
     [](Program& p) {
       p.outputs.push_back({"z", 7, -1});
     },
     "lies elsewhere"},
    {"input_names", [](Program& p) { p.inputs[1].name = "x"; }, "two inputs"},
    {"output_names", [](Program& p) { p.outputs[1].name = "y"; }, "two outputs"},
    {"alias_range", [](Program& p) { p.outputs[1].alias = 3; }, "output 1 \"next\""},
    {"alias_below", [](Program& p) { p.outputs[1].alias = -2; }, "output 1 \"next\""},
    {"alias_other_input", [](Program& p) { p.outputs[1].alias = 0; }, "lies elsewhere"},
    {"alias_twice",
     [](Program& p) {
       p.outputs.push_back({"z", 8, 2});
     },
     "two outputs take over"},
    {"alias_forgotten", [](Program& p) { p.outputs[1].alias = -1; }, "lies elsewhere"},
    {"space", [](Program& p) { p.values[8].spec.space = Space::l1; }, "but its buffer is in dram"},
    {"workspace_on_host", [](Program& p) { p.values[5].spec.space = Space::host; }, "host memory"},
    {"other_mesh",
     [](Program& p) {
       p.values[0].spec.mesh = MeshShape{2, 1};
     },
     "2x1"},
    {"placement_count", [](Program& p) { p.values[0].spec.placements = {shard(0)}; }, "\"x\""},
    {"placement_dim",
     [](Program& p) {
       p.values[0].spec.placements = {replicate(), shard(2)};
     },
     "\"x\""},
    {"huge_shape",
     [](Program& p) {
       p.values[5].spec.shape = Shape{std::int64_t{1} << 41, 1};
     },
     "elements"},
    {"huge_zero_shape",
     [](Program& p) {
       p.values[5].spec.shape = Shape{0, std::int64_t{1} << 39, 4};
     },
     "elements"},
    {"huge_blocks", [](Program& p) { p.values[5].spec.layout = Layout::tiled(2, 1024, 1024); },
     "blocks"},
    {"layout_rank", [](Program& p) { p.values[1].spec.layout = Layout::blocked(1, 16); }, "flag"},
    {"constant_bytes", [](Program& p) { p.constants[1].bytes = 31; }, "constant 1 has 31"},
    {"constant_offset", [](Program& p) { p.constants[1].offset = 196; }, "constant 1"},
    {"constant_outside", [](Program& p) { p.constants[1].offset = 256; }, "outside the 224"},
    {"constant_wraps", [](Program& p) { p.constants[1].offset = ~std::uint64_t{63}; },
     "outside the 224"},
    {"constant_sharded",
     [](Program& p) {
       p.values[4].spec.placements = {replicate(), shard(0)};
     },
     "op 0 \"matmul_0\""},
    {"op_unknown", [](Program& p) { p.ops[0].op = "matmal"; }, "matmal"},
    {"op_value", [](Program& p) { p.ops[0].inputs[1] = 9; }, "names value 9"},
    {"op_inputs_few", [](Program& p) { p.ops[7].inputs = {5}; }, "op 7"},
    {"op_inputs_many",
     [](Program& p) {
       p.ops[7].inputs = {5, 2, 2};
     },
     "op 7"},
    {"op_input_absent", [](Program& p) { p.ops[7].inputs[0] = ProgramOp::kAbsent; }, "op 7"},
    {"op_outputs_none", [](Program& p) { p.ops[7].outputs.clear(); }, "op 7"},
    {"op_shape",
     [](Program& p) {
       p.ops[7].inputs = {5, 0};
     },
     "op 7 \"add_0\""},
    {"op_output_shape", [](Program& p) { p.ops[3].outputs = {0}; }, "op 3"},
    {"op_dtype", [](Program& p) { p.values[8].spec.dtype = DType::i32; }, "op 7"},
    {"op_attribute", [](Program& p) { p.ops[2].attributes.set("axis", std::int64_t{2}); }, "op 2"},
    {"op_attribute_kind", [](Program& p) { p.ops[2].attributes.set("axis", 1.0); }, "op 2"},
    {"op_attribute_huge",
     [](Program& p) {
       p.ops[5].attributes.set("order", std::vector<std::int64_t>{0, std::int64_t{1} << 50});
     },
     "impossible value"},
    {"op_attribute_unknown", [](Program& p) { p.ops[2].attributes.set("axes", std::int64_t{1}); },
     "has no attribute \"axes\""},
    {"op_output_absent", [](Program& p) { p.ops[7].outputs = {ProgramOp::kAbsent}; },
     "output 0 must be wanted"},
    {"epilogue_of_what_takes_none",
     [](Program& p) {
       p.ops[7].epilogue.steps = {{ScalarFn::relu, {ExpressionStep::kResult, 0}}};
     },
     "takes no epilogue"},
    {"step_function", [](Program& p) { p.ops[0].epilogue.steps[0].fn = static_cast<ScalarFn>(50); },
     "unknown function 50"},
    {"step_operand",
     [](Program& p) { p.ops[0].epilogue.steps[0].arguments[1] = ExpressionStep::kOperand + 3; },
     "step 0"},
    {"step_forward", [](Program& p) { p.ops[0].epilogue.steps[1].arguments[0] = 1; }, "step 1"},
    {"step_negative", [](Program& p) { p.ops[0].epilogue.steps[1].arguments[0] = -2; }, "step 1"},
    {"jump_back", [](Program& p) { p.ops[4].target = 4; }, "forward"},
    {"jump_far", [](Program& p) { p.ops[8].target = 11; }, "forward"},
    {"jump_outputs", [](Program& p) { p.ops[4].outputs = {7}; }, "no call"},
    {"condition_missing", [](Program& p) { p.ops[1].inputs.clear(); }, "one condition"},
    {"condition_dtype", [](Program& p) { p.ops[1].inputs = {4}; }, "replicated bool"},
    {"writes_constant", [](Program& p) { p.ops[7].outputs = {3}; }, "op 7"},
    {"writes_activation",
     [](Program& p) {
       p.inputs[2].kind = InputKind::activation;
       p.outputs.pop_back();
     },
     "only what an output takes over may be written"},
    {"writes_a_state_that_is_kept", [](Program& p) { p.outputs.pop_back(); },
     "only what an output takes over may be written"},
    {"reads_before_writing", [](Program& p) { std::swap(p.ops[2], p.ops[3]); },
     "nothing has written"},
    {"writes_on_one_way_only", [](Program& p) { p.ops[5] = p.ops[4]; }, "output \"y\""},
    {"overwritten_on_one_way",
     [](Program& p) {
       p.values.push_back({"z", p.values[5].spec, p.values[5].storage});
       p.ops[4].outputs = {};
       p.ops[6] = p.ops[5];  // before op 7, which reads the product
       p.ops[6].inputs = {7};
       p.ops[6].outputs = {9};
     },
     "on each way"},
    {"overwritten",
     [](Program& p) {
       p.values.push_back({"z", p.values[5].spec, p.values[5].storage});
       p.ops[9] = p.ops[8];
       p.ops[8] = p.ops[7];
       p.ops[7].outputs = {9};
     },
     "\"z\" has overwritten it"},
    {"overlaps_partly",
     [](Program& p) {
       p.dram_workspace_bytes = 256;
       p.values.push_back({"z", p.values[5].spec, {Storage::Kind::workspace, 0, 96}});
       p.ops[7].outputs = {9};
     },
     "partly overlaps"},
};

INSTANTIATE_TEST_SUITE_P(Sample, Verify, ::testing::ValuesIn(kBreakages),
                         [](const auto& test) { return test.param.name; });

TEST(Verify, AcceptsOpsInPlaceAndFreeViews) {
  Program program = sample_program();
  program.values.push_back({"again", program.values[5].spec, program.values[5].storage});
  program.ops[7].outputs = {9};  // add(product, state) over product
  EXPECT_NO_THROW(verify(program, kConstants));
}

TEST(Verify, RefusesAViewThatMovesNothingIntoAnotherLayout) {
  Program program = sample_program();
  ProgramValue view{"view", sample_spec({8, 3}), {Storage::Kind::constant, 0, 0}};
  program.values.push_back(view);
  ProgramOp reshape;
  reshape.op = "reshape";
  reshape.attributes = {{"shape", std::vector<std::int64_t>{8, 3}}};
  reshape.inputs = {3};
  reshape.outputs = {9};
  program.ops.push_back(reshape);
  EXPECT_THROW(verify(program, kConstants), Error);
}

/// `count` values side by side, each written, and one around them all that is read as often.
Program pieces(std::int64_t count) {
  using Kind = Storage::Kind;
  const std::int64_t bytes = count * 64;
  Program program;
  program.name = "pieces";
  program.mesh = MeshShape{1, 2};
  program.dram_workspace_bytes = bytes;
  program.values = {{"x", sample_spec({16}), {Kind::input, 0, 0}},
                    {"y", sample_spec({16 * count}), {Kind::output, 0, 0}},
                    {"all", sample_spec({16 * count}), {Kind::workspace, 0, 0}}};
  program.inputs = {{"x", 0, InputKind::activation}};
  program.outputs = {{"y", 1, -1}};
  const auto add = [&](std::uint32_t from, std::uint32_t to) {
    ProgramOp op;
    op.op = "relu";
    op.inputs = {from};
    op.outputs = {to};
    program.ops.push_back(std::move(op));
  };
  for (std::int64_t i = 0; i < count; ++i) {
    program.values.push_back({"part", sample_spec({16}), {Kind::workspace, 0, 64 * i}});
    add(0, static_cast<std::uint32_t>(i) + 3);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    add(2, 1);
  }
  return program;
}

TEST(Verify, ReadsPiecesInBoundedTime) {
  EXPECT_NO_THROW(verify(pieces(300), kConstants));
  try {
    verify(pieces(3000), kConstants);
    FAIL() << "nine million pieces were read";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("more pieces than can be checked"));
  }
}

TEST(ShardCall, HasEachDevicesShard) {
  const OpCall call = shard_call(sample_program(), 0);
  EXPECT_EQ(call.def->name, "matmul");
  ASSERT_EQ(call.inputs.size(), 3U);
  EXPECT_EQ(call.inputs[0].shape, (Shape{2, 3}));
  EXPECT_EQ(call.inputs[1].layout, Layout::blocked(1, 16));
  EXPECT_EQ(call.outputs[0].shape, (Shape{2, 8}));
  EXPECT_EQ(call.epilogue.steps.size(), 2U);
}

}  // namespace
}  // namespace tilemesh
