#include <cmath>
#include <limits>
#include <numeric>

#include "op_cases.hpp"

namespace tilemesh::ops::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using Ints = std::vector<std::int64_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::int64_t kOne = 1;

Value counting(const Shape& shape) {
  std::vector<float> elements(static_cast<std::size_t>(shape.element_count()));
  std::iota(elements.begin(), elements.end(), 1.0F);
  return f32(shape, elements);
}

TEST(MaxPool, ValuesAndIndices) {
  const Value x = counting({1, 2, 2, 3});
  const auto y = run_all("max_pool", {x}, {{"kernel", Ints{2, 2}}}, 2);
  EXPECT_EQ(y[0].type.shape, (Shape{1, 2, 1, 2}));
  EXPECT_THAT(elements<float>(y[0]), ElementsAre(5, 6, 11, 12));
  EXPECT_THAT(elements<std::int64_t>(y[1]), ElementsAre(4, 5, 10, 11));
  const auto columns =
      run_all("max_pool", {x}, {{"kernel", Ints{2, 2}}, {"storage_order", kOne}}, 2);
  EXPECT_THAT(elements<std::int64_t>(columns[1]), ElementsAre(3, 5, 9, 11));
}

TEST(MaxPool, PaddingNeverWins) {
  const Value x = f32({1, 1, 3}, {-5, -6, -7});
  EXPECT_THAT(elements<float>(run("max_pool", {x}, {{"kernel", Ints{2}}, {"pads", Ints{1, 1}}})),
              ElementsAre(-5, -5, -6, -7));
  const Value small = value<int>(DType::i8, {1, 1, 2}, {-128, -100});
  EXPECT_THAT(elements<int>(run("max_pool", {small}, {{"kernel", Ints{2}}, {"pads", Ints{1, 0}}})),
              ElementsAre(-128, -100));
}

TEST(MaxPool, LeavesNanOut) {
  const Value x = f32({1, 1, 5}, {kNan, 1, kNan, 5, kNan});
  const auto y = run_all("max_pool", {x}, {{"kernel", Ints{3}}}, 2);
  EXPECT_THAT(elements<float>(y[0]), ElementsAre(1, 5, 5));
  EXPECT_THAT(elements<std::int64_t>(y[1]), ElementsAre(1, 3, 3));
  const Value none = f32({1, 1, 4}, {kNan, kNan, -kInf, -kInf});
  const auto z = run_all("max_pool", {none}, {{"kernel", Ints{2}}}, 2);
  EXPECT_TRUE(std::isnan(elements<float>(z[0])[0]));
  EXPECT_EQ(elements<float>(z[0])[1], -kInf);
  EXPECT_EQ(elements<float>(z[0])[2], -kInf);
  EXPECT_THAT(elements<std::int64_t>(z[1]), ElementsAre(0, 2, 2));
}

TEST(Pool, AnEmptyImageHasNoWindows) {
  const Attributes same = {{"kernel", Ints{2, 1}}, {"pads", Ints{0, 0, 1, 0}}};
  for (const char* op : {"max_pool", "average_pool"}) {
    EXPECT_EQ(run(op, {f32({2, 3, 0, 4}, {})}, same).type.shape, (Shape{2, 3, 0, 4})) << op;
  }
  const Value y =
      run("conv", {f32({2, 1, 0, 4}, {}), f32({1, 1, 2, 1}, {1, 1})}, {{"pads", Ints{0, 0, 1, 0}}});
  EXPECT_EQ(y.type.shape, (Shape{2, 1, 0, 4}));
}

TEST(GlobalPool, NanWins) {
  const Value y = run("global_max_pool", {f32({1, 1, 3}, {1, kNan, 5})});
  EXPECT_TRUE(std::isnan(elements<float>(y)[0]));
}

TEST(Pool, CeilModeLeavesOutWindowsInThePadding) {
  const Attributes ceil = {{"kernel", Ints{2}}, {"strides", Ints{2}}, {"ceil_mode", kOne}};
  EXPECT_THAT(elements<float>(run("max_pool", {counting({1, 1, 5})}, ceil)), ElementsAre(2, 4, 5));
  Attributes padded = ceil;
  padded.set("pads", Ints{1, 1});
  // ceil((5 + 2 - 2) / 2) + 1 = 4 windows; the last starts at 6 of [1 pad, 5, 1 pad]: in the pad.
  EXPECT_THAT(elements<float>(run("max_pool", {counting({1, 1, 5})}, padded)),
              ElementsAre(1, 3, 5));
}

TEST(AveragePool, CountsPadsOnlyWhenAsked) {
  const Value x = f32({1, 1, 3}, {2, 4, 6});
  Attributes attributes = {{"kernel", Ints{2}}, {"pads", Ints{1, 0}}};
  EXPECT_THAT(elements<float>(run("average_pool", {x}, attributes)), ElementsAre(2, 3, 5));
  attributes.set("count_include_pad", kOne);
  EXPECT_THAT(elements<float>(run("average_pool", {x}, attributes)), ElementsAre(1, 3, 5));
  // What hangs over the padded input in ceil mode never counts.
  const Attributes over = {
      {"kernel", Ints{2}}, {"strides", Ints{2}}, {"ceil_mode", kOne}, {"count_include_pad", kOne}};
  EXPECT_THAT(elements<float>(run("average_pool", {x}, over)), ElementsAre(3, 6));
}

TEST(AveragePool, Dilates) {
  const Value x = counting({1, 1, 3, 3});
  EXPECT_THAT(elements<float>(
                  run("average_pool", {x}, {{"kernel", Ints{2, 2}}, {"dilations", Ints{2, 2}}})),
              ElementsAre(5));
}

TEST(Pool, ErrorsHaveBothValues) {
  EXPECT_THAT(infer_error("max_pool", {random({1, 1, 3})}, {{"kernel", Ints{4}}}),
              HasSubstr("spans 4 doesn't fit input [1,1,3] with its pads (3 elements)"));
  EXPECT_THAT(infer_error("max_pool", {random({1, 1, 3})}, {{"kernel", Ints{1, 1}}}),
              HasSubstr("attribute \"kernel\" wants 1 numbers, got 2"));
  EXPECT_THAT(infer_error("max_pool", {random({1, 3})}, {{"kernel", Ints{}}}), HasSubstr("[1,3]"));
  EXPECT_THAT(infer_error("average_pool", {random({1, 1, 3}, DType::i32)}, {{"kernel", Ints{1}}}),
              HasSubstr("wants a float, got i32"));
}

TEST(GlobalPool, Values) {
  const Value x = counting({1, 2, 2, 2});
  const Value y = run("global_average_pool", {x});
  EXPECT_EQ(y.type.shape, (Shape{1, 2, 1, 1}));
  EXPECT_THAT(elements<float>(y), ElementsAre(2.5F, 6.5F));
  EXPECT_THAT(elements<float>(run("global_max_pool", {x})), ElementsAre(4, 8));
}

TEST(BatchNorm, Value) {
  const Value x = f32({1, 2, 2}, {1, 2, 3, 4});
  const Value y = run("batch_normalization",
                      {x, f32({2}, {2, 1}), f32({2}, {0, 10}), f32({2}, {1, 3}), f32({2}, {4, 1})},
                      {{"epsilon", 0.0}});
  EXPECT_THAT(elements<float>(y), ElementsAre(0, 1, 10, 11));
  EXPECT_THAT(infer_error("batch_normalization", {x, x, x, x, x}),
              HasSubstr("input 1 wants shape [2] (one number per channel), got [1,2,2]"));
}

TEST(InstanceNorm, NormalisesEachPlane) {
  const Value x = f32({1, 2, 2}, {1, 3, 10, 30});
  EXPECT_THAT(elements<float>(run("instance_normalization", {x, f32({2}, {1, 2}), f32({2}, {0, 5})},
                                  {{"epsilon", 0.0}})),
              ElementsAre(-1, 1, 3, 7));
}

TEST(LayerNorm, GivesStatisticsWhenAsked) {
  const Value x = f32({2, 2}, {1, 3, 10, 30});
  const std::vector<Value> inputs = {x, f32({2}, {1, 1}), f32({2}, {0, 1})};
  const Attributes exact = {{"epsilon", 0.0}};
  const auto y = run_all("layer_normalization", inputs, exact, 3);
  EXPECT_THAT(elements<float>(y[0]), ElementsAre(-1, 2, -1, 2));
  EXPECT_EQ(y[1].type.shape, (Shape{2, 1}));
  EXPECT_THAT(elements<float>(y[1]), ElementsAre(2, 20));
  EXPECT_THAT(elements<float>(y[2]), ElementsAre(1, 0.1F));
  EXPECT_EQ(run_all("layer_normalization", inputs, exact).size(), 1U);
  EXPECT_THAT(infer_error("layer_normalization", {x, f32({3}, {1, 1, 1})}), HasSubstr("[3]"));
}

TEST(Lrn, WindowIsCutAtTheEnds) {
  const Value x = f32({1, 3, 1}, {1, 2, 3});
  const Value y =
      run("lrn", {x}, {{"size", std::int64_t{3}}, {"alpha", 3.0}, {"beta", 1.0}, {"bias", 1.0}});
  EXPECT_THAT(elements<float>(y), Pointwise(FloatNear(1e-6F), {1 / 6.0F, 2 / 15.0F, 3 / 14.0F}));
}

TEST(Softmax, IsStableAndSumsToOne) {
  const Value x = f32({2, 2}, {1000, 1000, -1000, -1000 + std::log(3.0F)});
  EXPECT_THAT(elements<float>(run("softmax", {x})),
              Pointwise(FloatNear(1e-4F), {0.5F, 0.5F, 0.25F, 0.75F}));
  EXPECT_THAT(elements<float>(run("log_softmax", {x})),
              Pointwise(FloatNear(1e-4F),
                        {std::log(0.5F), std::log(0.5F), std::log(0.25F), std::log(0.75F)}));
  EXPECT_THAT(elements<float>(run("softmax", {f32({2, 1}, {0, 0})}, {{"axis", std::int64_t{0}}})),
              ElementsAre(0.5F, 0.5F));
}

TEST(Softmax, OddLanes) {
  EXPECT_EQ(run("softmax", {f32({2, 0}, {})}).type.shape, (Shape{2, 0}));
  EXPECT_THAT(elements<float>(run("softmax", {f32({2}, {-kInf, 0})})), ElementsAre(0, 1));
  EXPECT_TRUE(std::isnan(elements<float>(run("softmax", {f32({2}, {kNan, 0})}))[1]));
  EXPECT_TRUE(std::isnan(elements<float>(run("softmax", {f32({2}, {0, kNan})}))[0]));
  EXPECT_THAT(infer_error("softmax", {random({})}), HasSubstr("outside [0,0)"));
}

TEST(Hardmax, TakesTheFirstOfEqualOnes) {
  EXPECT_THAT(elements<float>(run("hardmax", {f32({4}, {1, 3, 3, 2})})), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(elements<float>(run("hardmax", {f32({4}, {1, kNan, 3, kNan})})),
              ElementsAre(0, 1, 0, 0));
}

TEST(LpNormalization, BothNormsAndZero) {
  const Value x = f32({2, 2}, {3, 4, 0, 0});
  EXPECT_THAT(elements<float>(run("lp_normalization", {x})), ElementsAre(0.6F, 0.8F, 0, 0));
  EXPECT_THAT(elements<float>(run("lp_normalization", {x}, {{"p", kOne}})),
              Pointwise(FloatNear(1e-6F), {3 / 7.0F, 4 / 7.0F, 0.0F, 0.0F}));
}

}  // namespace
}  // namespace tilemesh::ops::testing
