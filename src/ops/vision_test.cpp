#include <cmath>
#include <limits>

#include "testing.hpp"

namespace tilemesh::ops::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using Ints = std::vector<std::int64_t>;

MATCHER(Near, "") {
  const auto [a, b] = arg;
  return std::abs(a - b) <= 1e-5F;
}

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Attributes sampling(const char* mode, const char* padding, bool align) {
  return {{"mode", std::string(mode)},
          {"padding", std::string(padding)},
          {"align_corners", std::int64_t{align}}};
}

/// Samples the row 10, 20, 30, 40 at coordinates.
std::vector<float> sample_row(const std::vector<float>& at, const Attributes& attributes) {
  const auto n = static_cast<std::int64_t>(at.size());
  return elements<float>(
      run("grid_sample", {f32({1, 1, 4}, {10, 20, 30, 40}), f32({1, n, 1}, at)}, attributes));
}

TEST(GridSample, CountsFromTheMiddlesOrTheEdgesOfTheCorners) {
  EXPECT_THAT(sample_row({-1, 0, 1}, sampling("linear", "zeros", true)), ElementsAre(10, 25, 40));
  // Without aligned corners -1 is the outer edge of the first element: half of it is padding.
  EXPECT_THAT(sample_row({-1, -0.75, 0, 1}, sampling("linear", "zeros", false)),
              ElementsAre(5, 10, 25, 20));
}

TEST(GridSample, PadsWithZerosTheBorderOrAReflection) {
  // Aligned, a step of 2/3 is one element: these are elements -1, -2, 4 and 5.
  const std::vector<float> at = {-5.0F / 3, -7.0F / 3, 5.0F / 3, 7.0F / 3};
  EXPECT_THAT(sample_row(at, sampling("nearest", "zeros", true)), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(sample_row(at, sampling("nearest", "border", true)), ElementsAre(10, 10, 40, 40));
  EXPECT_THAT(sample_row(at, sampling("nearest", "reflection", true)), ElementsAre(20, 30, 30, 20));
  // Not aligned, elements lie 0.5 apart, and the mirror stands at the edge: -1 is element 0.
  EXPECT_THAT(sample_row({-1.25, -1.75, 1.25, 1.75}, sampling("nearest", "reflection", false)),
              ElementsAre(10, 20, 40, 30));
}

TEST(GridSample, NearestRoundsHalfToEven) {
  // Aligned: elements 0.5, 1.5 and 2.5.
  EXPECT_THAT(sample_row({-2.0F / 3, 0, 2.0F / 3}, sampling("nearest", "zeros", true)),
              ElementsAre(10, 30, 30));
}

TEST(GridSample, CubicPassesThroughTheElements) {
  EXPECT_THAT(sample_row({-1.0F / 3, 1.0F / 3}, sampling("cubic", "border", true)),
              Pointwise(Near(), {20.0F, 30.0F}));
  // In the middle of 20 and 30 the weights are -3/32, 19/32, 19/32, -3/32.
  EXPECT_THAT(sample_row({0}, sampling("cubic", "zeros", true)), Pointwise(Near(), {25.0F}));
  // Between 10 and 20 there is nothing in front: -3/32 * 0.
  EXPECT_THAT(sample_row({-2.0F / 3}, sampling("cubic", "zeros", true)),
              Pointwise(Near(), {(19 * 10.0F + 19 * 20 - 3 * 30) / 32}));
}

TEST(GridSample, CubicHoldsEachNeighbourAtTheBorder) {
  // Not aligned, 0.9 is element 3.3: neighbours 30, 40, 40 and 40 with the weights at 0.3.
  const double t = 1.3;
  const double far = ((-0.75 * t + 3.75) * t - 6) * t + 3;
  EXPECT_THAT(sample_row({0.9F}, sampling("cubic", "border", false)),
              Pointwise(Near(), {static_cast<float>(40 - 10 * far)}));
}

TEST(GridSample, TheLastCoordinateIsTheFirstDim) {
  const Value x = f32({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6});
  const Value grid = f32({1, 1, 3, 2}, {1, -1, -1, 1, 0, 0});
  EXPECT_THAT(elements<float>(run("grid_sample", {x, grid}, sampling("linear", "zeros", true))),
              ElementsAre(3, 4, 3.5F));
}

TEST(GridSample, ReadsVolumes) {
  const Value x = f32({1, 1, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  const Value grid = f32({1, 1, 1, 3, 3}, {1, -1, -1, -1, -1, 1, 0, 0, 0});
  EXPECT_THAT(elements<float>(run("grid_sample", {x, grid}, sampling("linear", "zeros", true))),
              ElementsAre(1, 4, 3.5F));
}

TEST(GridSample, WhatIsNowhereReadsZeroOrAnEnd) {
  const std::vector<float> at = {kNaN, kInfinity, -kInfinity, 3e38F, -3e38F};
  for (const char* mode : {"linear", "nearest", "cubic"}) {
    EXPECT_THAT(sample_row(at, sampling(mode, "zeros", false)), ElementsAre(0, 0, 0, 0, 0));
    EXPECT_THAT(sample_row(at, sampling(mode, "border", false)), ElementsAre(10, 40, 10, 40, 10));
    for (const float value : sample_row(at, sampling(mode, "reflection", false))) {
      EXPECT_TRUE(value >= 5 && value <= 45) << value;  // cubic ones overshoot
    }
  }
}

TEST(GridSample, OneElementAndNone) {
  const Value one = f32({1, 1, 1}, {7});
  const Value grid = f32({1, 3, 1}, {-1, 0, 5});
  EXPECT_THAT(
      elements<float>(run("grid_sample", {one, grid}, sampling("linear", "reflection", true))),
      ElementsAre(7, 7, 7));
  EXPECT_THAT(infer_error("grid_sample", {f32({1, 1, 0}, {}), grid}),
              HasSubstr("nothing to sample"));
  EXPECT_EQ(run("grid_sample", {f32({1, 0, 3}, {}), grid}).type.shape, (Shape{1, 0, 3}));
  EXPECT_THAT(infer_error("grid_sample", {one, f32({1, 1, 2}, {0, 0})}),
              HasSubstr("wants [1, 1 output dims, 1]"));
}

Attributes regions(std::int64_t height, std::int64_t width) {
  return {{"output_height", height}, {"output_width", width}};
}

TEST(RoiAlign, AveragesSamplesOfEachBin) {
  // 4 x 4, element = 4 * row + column, so that interpolating is exact.
  std::vector<float> image(16);
  for (std::size_t i = 0; i < image.size(); ++i)
    image[i] = static_cast<float>(i);
  const Value x = f32({1, 1, 4, 4}, image);
  const Value roi = f32({1, 4}, {1, 1, 3, 3});
  Attributes attributes = regions(1, 2);
  attributes.set("half_pixel", std::int64_t{0});
  // Bins of 2 x 1 elements: samples at rows 1.5, 2.5 and columns 1.5 or 2.5.
  EXPECT_THAT(elements<float>(run("roi_align", {x, roi, i64({1}, {0})}, attributes)),
              ElementsAre(9.5F, 10.5F));
  attributes.set("half_pixel", std::int64_t{1});  // half an element up and left
  EXPECT_THAT(elements<float>(run("roi_align", {x, roi, i64({1}, {0})}, attributes)),
              ElementsAre(7, 8));
  attributes.set("mode", std::string("max"));
  attributes.set("sampling_ratio", std::int64_t{1});
  // The sample of the first bin lies on row 1.5, column 1: weights 1/2 for 5 and 9.
  EXPECT_THAT(elements<float>(run("roi_align", {x, roi, i64({1}, {0})}, attributes)),
              ElementsAre(4.5F, 5));
}

TEST(RoiAlign, WhatIsOutsideReadsNothing) {
  const Value x = f32({2, 1, 1, 2}, {1, 3, 5, 7});
  const Value rois = f32({2, 4}, {-9, -9, -8, -8, 0, 0, 2, 1});
  Attributes attributes = regions(1, 1);
  attributes.set("half_pixel", std::int64_t{0});
  attributes.set("sampling_ratio", std::int64_t{2});
  // Columns 0.5 and 1.5 (held at 1) of the second batch entry, counted from the back.
  EXPECT_THAT(elements<float>(run("roi_align", {x, rois, i64({2}, {0, -1})}, attributes)),
              ElementsAre(0, 6.5F));
}

TEST(RoiAlign, RefusesWhatCannotBeSampled) {
  const Value x = f32({1, 1, 2, 2}, {1, 2, 3, 4});
  for (const float end : {kNaN, kInfinity, 1e30F}) {
    EXPECT_THROW(run("roi_align", {x, f32({1, 4}, {0, 0, end, 1}), i64({1}, {0})}), Error) << end;
  }
  EXPECT_THROW(run("roi_align", {x, f32({1, 4}, {0, 0, 1, 1}), i64({1}, {1})}), Error);
  EXPECT_THAT(infer_error("roi_align", {x, f32({1, 5}, {0, 0, 1, 1, 1}), i64({1}, {0})}),
              HasSubstr("one row per region"));
  EXPECT_EQ(run("roi_align", {x, f32({0, 4}, {}), i64({0}, {})}).type.shape, (Shape{0, 1, 1, 1}));
}

TEST(MaxRoiPool, TakesTheHighestOfEachBin) {
  const Value x = f32({1, 1, 3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const Value rois = f32({3, 5}, {0, 0, 0, 3, 2, 0, 1, 1, 1, 1, 0, 7, 7, 9, 9});
  EXPECT_THAT(elements<float>(run("max_roi_pool", {x, rois}, regions(2, 2))),
              ElementsAre(6, 8, 10, 12, 6, 6, 6, 6, 0, 0, 0, 0));
}

TEST(Col2Im, SumsOverlappingBlocks) {
  // Blocks of 2 along 3 elements: two, which overlap in the middle.
  const Value x = f32({1, 2, 2}, {1, 2, 10, 20});
  EXPECT_THAT(elements<float>(run("col2im", {x}, {{"image", Ints{3}}, {"kernel", Ints{2}}})),
              ElementsAre(1, 12, 20));
  // Dilated by 2 with a pad in front, one block in two: taps lie at -1 and 1.
  const Value one = f32({1, 2, 1}, {1, 10});
  EXPECT_THAT(elements<float>(run("col2im", {one},
                                  {{"image", Ints{3}},
                                   {"kernel", Ints{2}},
                                   {"dilations", Ints{2}},
                                   {"pads", Ints{1, 0}},
                                   {"strides", Ints{2}}})),
              ElementsAre(0, 10, 0));
  EXPECT_THAT(infer_error("col2im", {x}, {{"image", Ints{4}}, {"kernel", Ints{2}}}),
              HasSubstr("wants [N, C * 2, 3]"));
}

TEST(Col2Im, KeepsInfinitiesApart) {
  const Value x = f32({1, 4, 1}, {kInfinity, 1, 2, kNaN});
  const std::vector<float> y =
      elements<float>(run("col2im", {x}, {{"image", Ints{2, 2}}, {"kernel", Ints{2, 2}}}));
  EXPECT_EQ(y[0], kInfinity);
  EXPECT_EQ(y[1], 1);
  EXPECT_EQ(y[2], 2);
  EXPECT_TRUE(std::isnan(y[3]));
}

TEST(DeformColumns, MovesEachTapByItsOffset) {
  const Value x = f32({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6});
  const Attributes kernel = {{"kernel", Ints{1, 2}}};
  // Two taps at two columns of two rows; the first goes half a row down, the second stays.
  std::vector<float> offset(16, 0);
  for (std::size_t i = 0; i < 4; ++i)
    offset[i] = 0.5F;
  const Value moved = f32({1, 4, 2, 2}, offset);
  EXPECT_THAT(elements<float>(run("deform_columns", {x, moved}, kernel)),
              ElementsAre(2.5F, 3.5F, 2, 2.5F, 2, 3, 5, 6));
  const Value mask = f32({1, 2, 2, 2}, {2, 2, 2, 2, 0, 1, 1, 1});
  EXPECT_THAT(elements<float>(run("deform_columns", {x, moved, mask}, kernel)),
              ElementsAre(5, 7, 4, 5, 0, 3, 5, 6));
}

TEST(DeformColumns, ReadsZerosOutside) {
  const Value x = f32({1, 1, 1, 2}, {8, 4});
  const Attributes kernel = {{"kernel", Ints{1, 1}}};
  const auto at = [&](float right) {
    const Value offset = f32({1, 2, 1, 2}, {0, 0, right, right});
    return elements<float>(run("deform_columns", {x, offset}, kernel));
  };
  EXPECT_THAT(at(-0.5F), ElementsAre(4, 6));
  EXPECT_THAT(at(1.75F), ElementsAre(1, 0));
  EXPECT_THAT(at(kNaN), ElementsAre(0, 0));
  EXPECT_THAT(at(1e30F), ElementsAre(0, 0));
  EXPECT_THAT(infer_error("deform_columns", {x, f32({1, 3, 1, 2}, {0, 0, 0, 0, 0, 0})}, kernel),
              HasSubstr("wants shape [1,2,1,2]"));
}

TEST(Determinant, OfMatricesOfAnySize) {
  EXPECT_THAT(elements<float>(run("determinant", {f32({2, 2, 2}, {1, 2, 3, 4, 0, 1, 1, 0})})),
              ElementsAre(-2, -1));
  EXPECT_THAT(elements<float>(run("determinant", {f32({3, 3}, {2, 0, 1, 1, 3, 2, 1, 1, 2})})),
              ElementsAre(6));
  EXPECT_THAT(elements<float>(run("determinant", {f32({2, 2}, {1, 2, 2, 4})})), ElementsAre(0));
  EXPECT_THAT(elements<float>(run("determinant", {f32({2, 0, 0}, {})})), ElementsAre(1, 1));
  EXPECT_TRUE(std::isnan(elements<float>(run("determinant", {f32({1, 1}, {kNaN})}))[0]));
  EXPECT_THAT(infer_error("determinant", {f32({2, 3}, std::vector<float>(6))}),
              HasSubstr("square matrices"));
}

}  // namespace
}  // namespace tilemesh::ops::testing
