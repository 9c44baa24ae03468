#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tilemesh/base/error.hpp"

#include "sample.hpp"

namespace tilemesh {
namespace {

std::uint64_t constants_bytes() {
  return cut_sample_contents().constants.size();
}

struct Change {
  std::string name;
  std::function<void(Program&)> apply;
  std::string message;  ///< "": it still passes
};

void PrintTo(const Change& change, std::ostream* out) {
  *out << change.name;
}

TensorSpec& spec(Program& program, const std::string& name) {
  for (ProgramValue& value : program.values) {
    if (value.name == name) return value.spec;
  }
  throw Error(ErrorCode::not_found, name);
}

class Placed : public ::testing::TestWithParam<Change> {};

TEST_P(Placed, IsCheckedAgainstTheOpsRule) {
  Program program = cut_sample_program();
  GetParam().apply(program);
  if (GetParam().message.empty()) {
    EXPECT_NO_THROW(verify(program, constants_bytes()));
    return;
  }
  try {
    verify(program, constants_bytes());
    FAIL() << "a broken program passed";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(GetParam().message));
    EXPECT_THAT(error.code(), ::testing::AnyOf(ErrorCode::invalid_file, ErrorCode::unsupported));
  }
}

const Placement kSum = partial(ReduceOp::sum);

// cut_sample_program: x[4,6] (replicate, shard 1) @ w[6,8] (replicate, shard 0)
//   -> product (replicate, partial sum) -> relu'd after a reshard to `whole`, sliced to `y`.
const std::vector<Change> kChanges = {
    {"as_it_is", [](Program&) {}, ""},
    {"product_not_partial", [](Program& p) { spec(p, "product").placements = {}; },
     "but by the op's rule it is partial sum"},
    {"product_other_reduction",
     [](Program& p) {
       spec(p, "product").placements = {replicate(), partial(ReduceOp::max)};
     },
     "but by the op's rule it is partial sum"},
    {"weights_whole",
     [](Program& p) {
       spec(p, "w").placements = {};
       p.constants[0].bytes = 192;
     },
     "op 0"},
    {"parts_through_what_is_not_linear", [](Program& p) { p.ops[2].inputs = {2}; },
     "1 of its 1 inputs are partial sum, which have to be reduced before"},
    {"replicated_from_nothing_is_no_part",
     [](Program& p) {
       spec(p, "relu").placements = {replicate(), kSum};
     },
     "but by the op's rule it is replicate"},
    {"constant_of_parts",
     [](Program& p) {
       spec(p, "w").placements = {replicate(), kSum};
     },
     "constants are whole or cut"},
    {"constant_with_one_shard", [](Program& p) { p.constants[0].bytes = 96; },
     "is 192 bytes in 2 shards"},
    {"reshard_shape",
     [](Program& p) {
       spec(p, "product").shape = {4, 7};
     },
     "op 0"},
    {"reshard_to_parts",
     [](Program& p) {
       p.ops[1].inputs = {3};
       p.ops[1].outputs = {2};
     },
     "can't become"},
    {"reshard_without_output", [](Program& p) { p.ops[1].outputs.clear(); }, "one value"},
    {"reshard_absent", [](Program& p) { p.ops[1].inputs = {ProgramOp::kAbsent}; },
     "input 0 must be given"},
    {"reshard_two_inputs",
     [](Program& p) {
       p.ops[1].inputs = {2, 2};
     },
     "wants 1 inputs, got 2"},
    {"reshard_epilogue",
     [](Program& p) {
       p.ops[1].epilogue.steps = {{ScalarFn::relu, {ExpressionStep::kResult, 0}}};
     },
     "takes no epilogue"},
    {"reshard_fill_max", [](Program& p) { p.ops[1].attributes.set("fill", std::int64_t{1}); }, ""},
    {"reshard_fill_5", [](Program& p) { p.ops[1].attributes.set("fill", std::int64_t{5}); },
     "\"fill\" wants 0 to 4, got 5"},
    {"reshard_fill_wraps", [](Program& p) { p.ops[1].attributes.set("fill", std::int64_t{256}); },
     "\"fill\" wants 0 to 4, got 256"},
    {"reshard_fill_negative", [](Program& p) { p.ops[1].attributes.set("fill", std::int64_t{-1}); },
     "\"fill\" wants 0 to 4, got -1"},
    {"reshard_fill_text", [](Program& p) { p.ops[1].attributes.set("fill", std::string("max")); },
     "fill"},
    {"reshard_in_place", [](Program& p) { p.values[3].storage = p.values[2].storage; }, ""},
    {"reshard_partly_in_place", [](Program& p) { p.values[3].storage.offset = 64; },
     "partly overlaps"},
    {"reshard_of_parts_to_shards_in_place",
     [](Program& p) {
       p.values[3].storage = p.values[2].storage;
       p.values[3].spec = p.values[5].spec;
     },
     "which is still read"},
    {"reshard_over_the_constant",
     [](Program& p) {
       p.values[5].storage = p.values[1].storage;
       p.values[5].spec.layout = {};
     },
     "which is in a constant"},
    {"reshard_blocked",
     [](Program& p) {
       spec(p, "product").layout = Layout::blocked(1, 8);
       spec(p, "whole").layout = Layout::blocked(1, 8);
     },
     ""},
    {"reshard_into_other_layout",
     [](Program& p) { spec(p, "whole").layout = Layout::blocked(1, 8); },
     "both have to be in rows"},
    {"slice_in_place", [](Program& p) { p.values[5].storage = p.values[4].storage; },
     "which is still read"},
    {"output_of_other_placement",
     [](Program& p) {
       p.ops[3].inputs = {2};
       spec(p, "y").placements = {replicate(), shard(1)};
     },
     ""},
};

INSTANTIATE_TEST_SUITE_P(Sample, Placed, ::testing::ValuesIn(kChanges),
                         [](const auto& test) { return test.param.name; });

/// A program of one op whose inputs and outputs are what the caller says.
Program one_op(const std::string& op, const std::vector<TensorSpec>& inputs,
               const std::vector<TensorSpec>& outputs, const MeshShape& mesh,
               Attributes attributes = {}) {
  Program program;
  program.name = "one";
  program.mesh = mesh;
  ProgramOp call;
  call.op = op;
  call.attributes = std::move(attributes);
  const auto add = [&](TensorSpec value, Storage::Kind kind, std::uint32_t index) {
    value.mesh = mesh;
    program.values.push_back({op, value, {kind, index, 0}});
    return static_cast<std::uint32_t>(program.values.size() - 1);
  };
  for (std::uint32_t i = 0; i < inputs.size(); ++i) {
    call.inputs.push_back(add(inputs[i], Storage::Kind::input, i));
    program.inputs.push_back({"in" + std::to_string(i), call.inputs.back()});
  }
  for (std::uint32_t i = 0; i < outputs.size(); ++i) {
    call.outputs.push_back(add(outputs[i], Storage::Kind::output, i));
    program.outputs.push_back({"out" + std::to_string(i), call.outputs.back()});
  }
  program.ops = {call};
  return program;
}

TensorSpec lying(const Shape& shape, const Placements& placements) {
  return {.shape = shape, .placements = placements};
}

void expect_refused(const Program& program, const std::string& message) {
  try {
    verify(program, 0);
    FAIL() << "passed, but should say " << message;
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(message));
  }
}

TEST(Placements, OfAMatmulOverTwoAxes) {
  const MeshShape mesh{2, 2};
  const auto matmul = [&](const Placements& a, const Placements& b, const Placements& c) {
    return one_op("matmul", {lying({4, 6}, a), lying({6, 8}, b)}, {lying({4, 8}, c)}, mesh);
  };
  const Placement rep = replicate();
  EXPECT_NO_THROW(verify(matmul({shard(0), rep}, {rep, shard(1)}, {shard(0), shard(1)}), 0));
  EXPECT_NO_THROW(verify(matmul({shard(0), shard(1)}, {rep, shard(0)}, {shard(0), kSum}), 0));
  EXPECT_NO_THROW(verify(matmul({shard(1), shard(1)}, {shard(0), shard(0)}, {kSum, kSum}), 0));
  // Locally these shapes fit as well.
  expect_refused(matmul({shard(0), rep}, {rep, shard(1)}, {shard(0), kSum}), "op 0");
  expect_refused(matmul({shard(1), rep}, {rep, shard(0)}, {rep, rep}), "axis 0");
  expect_refused(matmul({shard(0), rep}, {shard(1), rep}, {shard(0), rep}), "op 0");
  expect_refused(matmul({kSum, rep}, {rep, rep}, {rep, rep}), "partial sum");
  expect_refused(matmul({kSum, rep}, {partial(ReduceOp::max), rep}, {kSum, rep}), "another way");
  expect_refused(matmul({kSum, rep}, {shard(1), rep}, {shard(1), rep}), "both parts");
}

TEST(Placements, OfPartsGoThroughAsTheOpsRuleSays) {
  const MeshShape mesh{2};
  const TensorSpec whole = lying({4, 4}, {});
  const TensorSpec sum = lying({4, 4}, {kSum});
  const TensorSpec max = lying({4, 4}, {partial(ReduceOp::max)});
  const std::string refused = "reduced before";
  EXPECT_NO_THROW(verify(one_op("add", {sum, sum}, {sum}, mesh), 0));
  expect_refused(one_op("add", {sum, whole}, {sum}, mesh), refused);
  expect_refused(one_op("add", {max, max}, {max}, mesh), refused);
  EXPECT_NO_THROW(verify(one_op("mul", {whole, sum}, {sum}, mesh), 0));
  expect_refused(one_op("mul", {sum, sum}, {sum}, mesh), refused);
  EXPECT_NO_THROW(verify(one_op("matmul", {sum, whole}, {sum}, mesh), 0));
  expect_refused(one_op("matmul", {sum, whole}, {whole}, mesh), "it is partial sum");
  const Attributes order = {{"order", std::vector<std::int64_t>{1, 0}}};
  EXPECT_NO_THROW(verify(one_op("transpose", {max}, {max}, mesh, order), 0));
  expect_refused(one_op("exp", {sum}, {sum}, mesh), refused);
  Program fused = one_op("matmul", {sum, whole}, {sum}, mesh);
  fused.ops[0].epilogue.steps = {
      {ScalarFn::relu, {ExpressionStep::kResult, ExpressionStep::kResult}}};
  expect_refused(fused, refused);
}

TEST(Placements, OfAnAxisOfOneDontMatter) {
  const Program program = one_op("relu", {lying({4, 6}, {replicate(), shard(1)})},
                                 {lying({4, 6}, {})}, MeshShape{2, 1});
  EXPECT_NO_THROW(verify(program, 0));
}

TEST(Placements, OfTheSameShardShapeButAnotherDimAreRefused) {
  expect_refused(one_op("transpose", {lying({4, 4}, {shard(0), replicate()})},
                        {lying({4, 4}, {replicate(), shard(1)})}, MeshShape{2, 2},
                        {{"order", std::vector<std::int64_t>{1, 0}}}),
                 "op 0");
}

TEST(Placements, OfAMeanOfUnevenShardsAreRefused) {
  const auto mean = [](std::int64_t n) {
    return one_op("reduce_mean", {lying({n, 3}, {shard(0)})},
                  {lying({3}, {partial(ReduceOp::mean)})}, MeshShape{2},
                  {{"axes", std::vector<std::int64_t>{0}}, {"keepdims", std::int64_t{0}}});
  };
  EXPECT_NO_THROW(verify(mean(4), 0));
  expect_refused(mean(5), "equal size");
  // Another dim may be cut as it likes.
  EXPECT_NO_THROW(
      verify(one_op("reduce_mean", {lying({4, 3}, {shard(0), shard(1)})},
                    {lying({3}, {partial(ReduceOp::mean), shard(0)})}, MeshShape{2, 2},
                    {{"axes", std::vector<std::int64_t>{0}}, {"keepdims", std::int64_t{0}}}),
             0));
}

TEST(Placements, OfADimThatTheOpNeedsWholeAreRefused) {
  expect_refused(one_op("softmax", {lying({4, 6}, {shard(1)})}, {lying({4, 6}, {shard(1)})},
                        MeshShape{2}, {{"axis", std::int64_t{1}}}),
                 "needs that dim whole");
}

TEST(Placements, OfABlockedValueReshardByReducingOnly) {
  TensorSpec from = lying({5, 8}, {shard(0), kSum});
  TensorSpec to = lying({5, 8}, {shard(0), replicate()});
  EXPECT_NO_THROW(verify(one_op("reshard", {from}, {to}, MeshShape{2, 2}), 0));
  from.layout = to.layout = Layout::blocked(1, 8);
  EXPECT_NO_THROW(verify(one_op("reshard", {from}, {to}, MeshShape{2, 2}), 0));
  to.placements = {};
  expect_refused(one_op("reshard", {from}, {to}, MeshShape{2, 2}), "in rows");
}

TEST(Placements, OfTwoReductionsInOneReshardAreRefused) {
  const TensorSpec from = lying({4}, {kSum, partial(ReduceOp::max)});
  expect_refused(one_op("reshard", {from}, {lying({4}, {})}, MeshShape{2, 2}), "in two ways");
  EXPECT_NO_THROW(
      verify(one_op("reshard", {from}, {lying({4}, {kSum, replicate()})}, MeshShape{2, 2}), 0));
}

TEST(Shards, AreNumberedByTheAxesThatCut) {
  TensorSpec spec{.shape = {12, 5}, .placements = {shard(0), replicate(), shard(0)}};
  spec.mesh = MeshShape{2, 3, 2};
  EXPECT_EQ(shard_count(spec), 4);
  EXPECT_EQ(shard_index(spec, {0, 2, 1}), 1);
  EXPECT_EQ(shard_index(spec, {1, 0, 0}), 2);
  EXPECT_EQ(shard_index(spec, {1, 1, 1}), 3);
  spec.placements = {};
  EXPECT_EQ(shard_count(spec), 1);
  EXPECT_EQ(shard_index(spec, {1, 1, 1}), 0);
}

}  // namespace
}  // namespace tilemesh
