#include <gtest/gtest.h>

#include "testing.hpp"

namespace tilemesh::cpu::highway {
namespace {

using testing::absent;
using testing::call_of;
using testing::expect_like_reference;
using testing::Range;
using testing::rows;
using Integers = std::vector<std::int64_t>;

constexpr testing::Tolerance kTolerance{.relative = 1e-4, .absolute = 2e-5};
const std::vector<Range> kOnes = {Range{.low = -1, .high = 1}};

TEST(ConvWindows, ShortTimeTransforms) {
  for (const std::int64_t stride : {1, 3, 128}) {
    const Attributes attributes = {{"strides", Integers{stride}}};
    for (const Layout& layout : {Layout::rows(), Layout::channels_last(3)}) {
      expect_like_reference(
          call_of("conv", {rows({1, 1, 640}), rows({258, 1, 256})}, attributes, layout), kOnes,
          kTolerance);
      expect_like_reference(
          call_of("conv", {rows({3, 1, 77}), rows({5, 1, 17}), rows({5})}, attributes, layout),
          kOnes, kTolerance);
    }
  }
  expect_like_reference(call_of("conv", {rows({1, 1, 4000}), rows({67, 1, 400})}), kOnes,
                        kTolerance);
}

TEST(ConvWindows, ChainsRunOnTheResult) {
  OpCall call = call_of("conv", {rows({2, 1, 100}), rows({6, 1, 16}), absent()});
  call.inputs.push_back(rows({6, 1}));
  call.epilogue.steps = {
      {.fn = ScalarFn::add, .arguments = {ExpressionStep::kResult, ExpressionStep::kOperand + 3}},
      {.fn = ScalarFn::sigmoid, .arguments = {0, 0}},
      {.fn = ScalarFn::mul, .arguments = {1, ExpressionStep::kResult}}};
  expect_like_reference(call, kOnes, kTolerance);
}

TEST(ConvWindows, OtherConvolutionsAreRefused) {
  const auto refusal = [](const Shape& x, const Shape& w, const Attributes& attributes) {
    return testing::refusal_of(call_of("conv", {rows(x), rows(w)}, attributes));
  };
  EXPECT_EQ(refusal({1, 1, 40}, {2, 1, 16}, {}), "");
  EXPECT_NE(refusal({1, 2, 40}, {2, 2, 16}, {}), "");
  EXPECT_NE(refusal({1, 1, 40}, {2, 1, 3}, {}), "");
  EXPECT_NE(refusal({1, 1, 40}, {2, 1, 16}, {{"pads", Integers{1, 1}}}), "");
  EXPECT_NE(refusal({1, 1, 40}, {2, 1, 16}, {{"dilations", Integers{2}}}), "");
  EXPECT_NE(refusal({1, 1, 40, 40}, {2, 1, 16, 16}, {}), "");
}

}  // namespace
}  // namespace tilemesh::cpu::highway
