#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "reduce_math.hpp"
#include "testing.hpp"

namespace tilemesh::cpu::highway {
namespace {

using testing::call_of;
using testing::expect_like_reference;
using testing::laid;
using testing::Range;
using testing::rows;
using testing::Tolerance;
using Integers = std::vector<std::int64_t>;

const char* const kReductions[] = {"reduce_sum",  "reduce_mean", "reduce_max", "reduce_min",
                                   "reduce_prod", "reduce_l1",   "reduce_l2",  "reduce_sum_square"};
const std::vector<Range> kNearOne = {Range{.low = -1.1, .high = 1.1}};
constexpr Range kSpecials{.specials = true};
constexpr Tolerance kTolerance{.relative = 1e-5, .absolute = 1e-5};

TEST(Reduce, AllAxes) {
  const std::vector<Shape> shapes = {{3, 5, 7}, {1, 17, 33}, {4, 1, 130}, {2, 65, 2}, {6, 7, 1}};
  const std::vector<Integers> axes = {{}, {0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}, {-1}};
  for (const char* op : kReductions) {
    for (const Shape& shape : shapes) {
      for (const Integers& chosen : axes) {
        for (const int keep : {0, 1}) {
          expect_like_reference(call_of(op, {rows(shape)}, {{"axes", chosen}, {"keepdims", keep}}),
                                kNearOne, kTolerance);
        }
      }
    }
  }
}

TEST(Reduce, ManyGroupsOfAxes) {
  expect_like_reference(
      call_of("reduce_sum", {rows({2, 3, 4, 5, 6, 2})}, {{"axes", Integers{0, 2, 4}}}), kNearOne,
      kTolerance);
  expect_like_reference(
      call_of("reduce_max", {rows({2, 3, 4, 5, 6, 2})}, {{"axes", Integers{1, 3, 5}}}), kNearOne);
}

TEST(Reduce, LogOfSums) {
  expect_like_reference(call_of("reduce_log_sum", {rows({3, 40})}, {{"axes", Integers{1}}}),
                        {Range{.low = 0.1, .high = 2}});
}

TEST(Reduce, NotANumberWins) {
  for (const char* op : {"reduce_max", "reduce_min"}) {
    for (const Integers& axes : {Integers{0}, Integers{1}}) {
      expect_like_reference(call_of(op, {rows({37, 41})}, {{"axes", axes}}),
                            {Range{.low = -2, .high = 2, .specials = true}});
    }
  }
}

TEST(Reduce, BigOnThreads) {
  for (const Integers& axes : {Integers{0}, Integers{1}, Integers{2}}) {
    expect_like_reference(call_of("reduce_mean", {rows({70, 90, 110})}, {{"axes", axes}}), kNearOne,
                          kTolerance);
  }
}

TEST(Reduce, BlockedChannels) {
  const Layout c16 = Layout::blocked(1, 16);
  for (const std::int64_t channels : {16, 48, 19}) {
    const OperandType x = laid({2, channels, 5, 7}, c16);
    for (const char* op : {"global_average_pool", "global_max_pool"}) {
      expect_like_reference(call_of(op, {x}, {}, c16), kNearOne, kTolerance);
    }
    expect_like_reference(call_of("reduce_sum", {x}, {{"axes", Integers{2, 3}}}, c16), kNearOne,
                          kTolerance);
    expect_like_reference(call_of("reduce_max", {x}, {{"axes", Integers{3}}}, c16), kNearOne);
    const OpCall over_channels = call_of("reduce_max", {x}, {{"axes", Integers{1}}});
    if (channels % 16 == 0) {
      expect_like_reference(over_channels, kNearOne);
    } else {
      EXPECT_NE(testing::refusal_of(over_channels), "");
    }
  }
  expect_like_reference(call_of("global_average_pool", {rows({2, 19, 5, 7})}), kNearOne,
                        kTolerance);
}

TEST(Arg, FirstAndLastOfEqualOnes) {
  for (const char* op : {"arg_max", "arg_min"}) {
    for (int axis = 0; axis < 3; ++axis) {
      for (const int last : {0, 1}) {
        for (const int keep : {0, 1}) {
          const Attributes attributes = {
              {"axis", axis}, {"select_last_index", last}, {"keepdims", keep}};
          expect_like_reference(call_of(op, {rows({3, 7, 40})}, attributes));
          expect_like_reference(call_of(op, {rows({3, 7, 40})}, attributes),
                                {Range{.low = 1, .high = 1}});
        }
      }
    }
  }
}

TEST(Arg, NanIsChosen) {
  for (const char* op : {"arg_max", "arg_min"}) {
    for (const int last : {0, 1}) {
      for (const std::int64_t size : {1, 2, 5, 30}) {
        expect_like_reference(
            call_of(op, {rows({40, size, 3})}, {{"axis", 1}, {"select_last_index", last}}),
            {kSpecials});
      }
    }
  }
}

TEST(Reduce, ExtremesOfOddValues) {
  for (const char* op : {"reduce_max", "reduce_min"}) {
    for (const std::int64_t size : {1, 3, 16, 19, 70}) {
      expect_like_reference(call_of(op, {rows({9, size})}, {{"axes", Integers{1}}}), {kSpecials});
      expect_like_reference(call_of(op, {rows({9, size})}, {{"axes", Integers{0}}}), {kSpecials});
      expect_like_reference(call_of(op, {rows({2, 3, size})}, {{"axes", Integers{0, 1, 2}}}),
                            {kSpecials});
    }
  }
  expect_like_reference(call_of("global_max_pool", {rows({7, 5, 3, 5})}), {kSpecials});
}

TEST(Softmax, OfOddValues) {
  for (const char* op : {"softmax", "log_softmax"}) {
    for (const int axis : {1, 2}) {
      expect_like_reference(call_of(op, {rows({40, 3, 5})}, {{"axis", axis}}), {kSpecials});
      expect_like_reference(call_of(op, {rows({40, 20, 1})}, {{"axis", axis}}), {kSpecials});
    }
  }
}

TEST(Softmax, LinesOfAllSizes) {
  for (const char* op : {"softmax", "log_softmax"}) {
    for (const std::int64_t size : {1, 2, 15, 16, 17, 33, 100, 1000, 0}) {
      expect_like_reference(call_of(op, {rows({3, size})}, {{"axis", 1}}),
                            {Range{.low = -30, .high = 30}}, {.relative = 4e-6, .absolute = 1e-7});
    }
    expect_like_reference(call_of(op, {rows({2, 5, 1})}, {{"axis", -2}}));
    expect_like_reference(call_of(op, {rows({300, 700})}, {{"axis", 1}}));
    expect_like_reference(call_of(op, {rows({1, 9})}, {{"axis", 1}}),
                          {Range{.low = 1e5, .high = 1.001e5}});
  }
}

TEST(Softmax, AlongAnyDim) {
  for (const char* op : {"softmax", "log_softmax"}) {
    for (const int axis : {0, 1, 2}) {
      expect_like_reference(call_of(op, {rows({5, 7, 19})}, {{"axis", axis}}),
                            {Range{.low = -30, .high = 30}}, {.relative = 4e-6, .absolute = 2e-6});
    }
    expect_like_reference(call_of(op, {rows({4, 200, 300})}, {{"axis", 1}}));
    expect_like_reference(call_of(op, {rows({2, 0, 3})}, {{"axis", 1}}));
  }
}

TEST(Softmax, SpecialValues) {
  expect_like_reference(call_of("softmax", {rows({64, 5})}, {{"axis", 1}}),
                        {Range{.low = -2, .high = 2, .specials = true}},
                        {.relative = 4e-6, .absolute = 1e-7});
}

TEST(Softmax, RowsOfEverySize) {
  for (const char* op : {"softmax", "log_softmax"}) {
    for (const std::int64_t size : {1, 15, 16, 17, 64, 131, 1024, 1025, 5000}) {
      for (const std::int64_t count : {1, 4, 7}) {
        const OpCall call = call_of(op, {rows({count, size})}, {{"axis", 1}});
        expect_like_reference(call, {Range{.low = -8, .high = 8}},
                              {.relative = 6e-6, .absolute = 2e-6});
        // Most of what is far below the largest becomes nothing.
        expect_like_reference(call, {Range{.low = -300, .high = 300}},
                              {.relative = 6e-6, .absolute = 1e-6});
      }
    }
  }
}

TEST(Softmax, SpecialValuesInLongRows) {
  expect_like_reference(call_of("softmax", {rows({9, 133})}, {{"axis", 1}}),
                        {Range{.low = -2, .high = 2, .specials = true}},
                        {.relative = 6e-6, .absolute = 1e-7});
}

TEST(Normalize, LayersWithAndWithoutBias) {
  const Tolerance tolerance{.relative = 2e-5, .absolute = 5e-6};
  for (const std::int64_t size : {1, 5, 16, 33, 768}) {
    const OperandType x = rows({2, 3, size});
    OpCall call = call_of("layer_normalization", {x, rows({size}), rows({size})}, {{"axis", -1}});
    expect_like_reference(call, {Range{}}, tolerance);
    call.inputs.pop_back();
    call.outputs.resize(3);
    infer_outputs(call);
    if (size > 1) expect_like_reference(call, {Range{}}, tolerance);
  }
  expect_like_reference(
      call_of("layer_normalization", {rows({2, 3, 5, 4}), rows({5, 4}), rows({5, 4})},
              {{"axis", 2}, {"epsilon", 0.1}}),
      {Range{}}, tolerance);
  expect_like_reference(call_of("layer_normalization", {rows({400, 300}), rows({300})}, {}),
                        {Range{}}, tolerance);
}

TEST(Normalize, AnInfiniteMeanIsInfinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x{1, kInfinity, 2, 4, 5, 6};
  const std::vector<float> scale{1, 1, 1};
  std::vector<float> y(6), means(2), inverses(2);
  const LayerNormRows all{
      .x = x.data(), .scale = scale.data(), .bias = nullptr, .y = y.data(), .count = 2, .size = 3};
  row_fns().layer_norm(all, 1e-5F, means.data(), inverses.data());
  EXPECT_EQ(means, (std::vector<float>{kInfinity, 5}));
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(inverses[0]));
  EXPECT_EQ(y[4], 0);
}

TEST(Normalize, KeepsTheSignsOfZeroAndOfInfiniteScales) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float one = 1, scale = -2;
  float y = 1;
  row_fns().layer_norm(
      {.x = &one, .scale = &scale, .bias = nullptr, .y = &y, .count = 1, .size = 1}, 1e-5F, nullptr,
      nullptr);
  EXPECT_TRUE(y == 0 && std::signbit(y));
  const std::vector<float> x{1, 2};
  std::vector<float> z(2);
  row_fns().instance_norm(x.data(), -kInfinity, 1, z.data(), 2, 1e-5F);
  EXPECT_EQ(z, (std::vector<float>{kInfinity, -kInfinity}));
}

// The mean of these has no bits for what they differ in.
TEST(Normalize, FarFromZero) {
  const Range far{.low = 1e6, .high = 1e6 + 2};
  const Range near{.low = -1, .high = 1};
  for (const std::int64_t size : {2, 5, 33, 100}) {
    const Tolerance tolerance{.relative = 1e-5, .absolute = 1e-5};
    expect_like_reference(call_of("layer_normalization", {rows({20, size}), rows({size})}, {}),
                          {far, near}, tolerance);
    expect_like_reference(
        call_of("instance_normalization", {rows({2, 9, size}), rows({9}), rows({9})}),
        {far, near, near}, tolerance);
  }
}

TEST(Normalize, Instances) {
  expect_like_reference(
      call_of("instance_normalization", {rows({2, 3, 9, 7}), rows({3}), rows({3})}), {Range{}},
      {.relative = 2e-5, .absolute = 5e-6});
  expect_like_reference(
      call_of("instance_normalization", {rows({2, 70, 2000}), rows({70}), rows({70})}), {Range{}},
      {.relative = 2e-5, .absolute = 5e-6});
}

}  // namespace
}  // namespace tilemesh::cpu::highway
