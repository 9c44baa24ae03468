#include "targets.hpp"

#include <gtest/gtest.h>

#include <hwy/highway.h>
#include <hwy/targets.h>

#include "testing.hpp"

/// The other tests run on the best instruction set of the machine; these run on every one.
namespace tilemesh::cpu::highway {
namespace {

using testing::absent;
using testing::call_of;
using testing::expect_like_reference;
using testing::laid;
using testing::Range;
using testing::rows;
using Integers = std::vector<std::int64_t>;

class EveryTarget : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { choose(GetParam()); }
  void TearDown() override { choose(0); }

 private:
  static void choose(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

constexpr Range kAnything{.low = -20, .high = 20, .specials = true};
const Layout kC16 = Layout::blocked(1, 16);

TEST_P(EveryTarget, Functions) {
  for (const OpDef& op : all_ops()) {
    if (op.scalar_fn < 0 || op.name == "acos" || op.name == "asin" || op.name == "acosh" ||
        op.name == "atanh" || op.name == "pow") {
      continue;
    }
    std::vector<OperandType> inputs(static_cast<std::size_t>(op.min_inputs), rows({531}));
    expect_like_reference(call_of(op.name, inputs), {kAnything},
                          {.relative = 3e-6, .absolute = 4e-7});
  }
  expect_like_reference(call_of("pow", {rows({531}), rows({531})}),
                        {Range{.low = 0.1, .high = 4}, Range{.low = -3, .high = 3}});
}

TEST_P(EveryTarget, HalvesAndBlocks) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    expect_like_reference(call_of("cast", {rows({531})}, {{"to", static_cast<int>(dtype)}}),
                          {kAnything});
    expect_like_reference(call_of("add", {rows({3, 177}, dtype), rows({177}, dtype)}), {kAnything});
  }
  expect_like_reference(call_of("sigmoid", {laid({2, 19, 3, 5}, kC16)}, {}, kC16));
}

TEST_P(EveryTarget, Integers) {
  constexpr Range kBytes{.low = 0, .high = 255};
  constexpr Range kScales{.low = 0.05, .high = 2};
  const OperandType zero = rows({}, DType::u8);
  expect_like_reference(call_of("quantize", {rows({531}), rows({}), zero}),
                        {kAnything, kScales, kBytes});
  expect_like_reference(call_of("dequantize", {rows({531}, DType::u8), rows({}), zero}),
                        {kBytes, kScales, kBytes}, {0, 0});
  expect_like_reference(
      call_of("matmul_integer", {rows({29, 41}, DType::u8), rows({41, 67}, DType::u8), zero, zero},
              {{"transpose_a", 0}, {"transpose_b", 0}}),
      {kBytes});
  expect_like_reference(
      call_of("conv_integer",
              {rows({1, 8, 15, 33}, DType::u8), rows({8, 1, 3, 3}, DType::u8), zero, zero},
              {{"strides", Integers{1, 1}},
               {"pads", Integers{1, 1, 1, 1}},
               {"dilations", Integers{1, 1}},
               {"group", 8}}),
      {kBytes});
}

TEST_P(EveryTarget, Transposes) {
  for (const DType dtype : {DType::u8, DType::f16, DType::f32, DType::i64}) {
    for (const Shape& shape : {Shape{67, 83}, Shape{16, 64}, Shape{3, 5}}) {
      expect_like_reference(
          call_of("transpose", {rows(shape, dtype)}, {{"order", Integers{1, 0}}}));
    }
    expect_like_reference(call_of("convert", {rows({2, 35, 5, 7}, dtype)}, {}, kC16));
  }
}

TEST_P(EveryTarget, Reductions) {
  for (const char* op : {"reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_l1",
                         "reduce_l2", "reduce_mean"}) {
    for (const Integers& axes : {Integers{0}, Integers{1}, Integers{2}}) {
      expect_like_reference(call_of(op, {rows({5, 37, 75})}, {{"axes", axes}}),
                            {Range{.low = -1.1, .high = 1.1}},
                            {.relative = 1e-5, .absolute = 1e-5});
    }
  }
  for (const Integers& axes : {Integers{0}, Integers{1}}) {
    expect_like_reference(call_of("reduce_max", {rows({37, 41})}, {{"axes", axes}}), {kAnything});
  }
  expect_like_reference(call_of("global_average_pool", {laid({2, 24, 5, 7}, Layout::blocked(1, 8))},
                                {}, Layout::blocked(1, 8)));
}

TEST_P(EveryTarget, Normalisations) {
  for (const int axis : {1, 2}) {
    for (const char* op : {"softmax", "log_softmax"}) {
      expect_like_reference(call_of(op, {rows({3, 45, 21})}, {{"axis", axis}}), {Range{}},
                            {.relative = 4e-6, .absolute = 2e-6});
    }
  }
  expect_like_reference(
      call_of("layer_normalization", {rows({3, 77}), rows({77}), rows({77})}, {{"axis", 1}}),
      {Range{}}, {.relative = 2e-5, .absolute = 5e-6});
}

TEST_P(EveryTarget, Products) {
  expect_like_reference(
      call_of("lstm", {rows({3, 5, 19}), rows({1, 44, 19}), rows({1, 44, 11}), rows({1, 88})},
              {{"hidden_size", 11}}),
      {Range{.low = -0.6, .high = 0.6}}, {.relative = 1e-4, .absolute = 2e-6});
  expect_like_reference(
      call_of("conv", {rows({2, 1, 90}), rows({9, 1, 21}), rows({9})}, {{"strides", Integers{5}}}),
      {Range{.low = -1, .high = 1}}, {.relative = 1e-4, .absolute = 2e-5});
}

TEST_P(EveryTarget, Images) {
  for (const Layout& layout : {Layout::rows(), Layout::blocked(1, 8)}) {
    expect_like_reference(call_of("resize", {laid({2, 11, 5, 7}, layout)},
                                  {{"mode", "linear"}, {"sizes", Integers{2, 11, 9, 16}}}, layout));
  }
}

INSTANTIATE_TEST_SUITE_P(Highway, EveryTarget,
                         ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const ::testing::TestParamInfo<std::int64_t>& parameter) {
                           return std::string(hwy::TargetName(parameter.param));
                         });

}  // namespace
}  // namespace tilemesh::cpu::highway
