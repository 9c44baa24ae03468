#include <cmath>
#include <limits>

#include "op_cases.hpp"

namespace tilemesh::ops::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using Ints = std::vector<std::int64_t>;
using Numbers = std::vector<double>;

std::vector<float> resized(const std::vector<float>& line, std::int64_t size,
                           Attributes attributes) {
  const Value x = f32({static_cast<std::int64_t>(line.size())}, line);
  attributes.set("sizes", Ints{size});
  return elements<float>(run("resize", {x}, std::move(attributes)));
}

Attributes options(const char* mode, const char* coordinate) {
  return {{"mode", std::string(mode)}, {"coordinate", std::string(coordinate)}};
}

TEST(Resize, NearestRoundings) {
  // asymmetric: positions 0, 0.5, 1, 1.5
  const auto of = [](const char* rounding) {
    Attributes attributes = options("nearest", "asymmetric");
    attributes.set("nearest_mode", std::string(rounding));
    return resized({1, 2}, 4, attributes);
  };
  EXPECT_THAT(of("floor"), ElementsAre(1, 1, 2, 2));
  EXPECT_THAT(of("ceil"), ElementsAre(1, 2, 2, 2));
  EXPECT_THAT(of("round_prefer_floor"), ElementsAre(1, 1, 2, 2));
  EXPECT_THAT(of("round_prefer_ceil"), ElementsAre(1, 2, 2, 2));
}

TEST(Resize, LinearCoordinates) {
  EXPECT_THAT(resized({0, 4}, 4, options("linear", "half_pixel")), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(resized({0, 4}, 4, options("linear", "asymmetric")), ElementsAre(0, 2, 4, 4));
  EXPECT_THAT(resized({0, 3}, 4, options("linear", "align_corners")), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(resized({2, 4, 9}, 1, options("linear", "pytorch_half_pixel")), ElementsAre(2));
  EXPECT_THAT(resized({2, 4, 9}, 1, options("linear", "half_pixel")), ElementsAre(4));
}

TEST(Resize, AlignCornersMeansTheSizeBeforeRounding) {
  Attributes attributes = options("linear", "align_corners");
  attributes.set("scales", Numbers{0.6});
  // 4 * 0.6 = 2.4: the second element lies at 3 / 1.4.
  EXPECT_THAT(resized({0, 1, 2, 3}, 2, attributes),
              Pointwise(FloatNear(1e-6F), {0.0F, static_cast<float>(3 / 1.4)}));
}

TEST(Resize, CubicReproducesParabolas) {
  // Keys' kernel with a = -0.5 is exact for polynomials of degree two, away from the ends.
  std::vector<float> line;
  for (int i = 0; i < 8; ++i) {
    line.push_back(static_cast<float>(i * i));
  }
  Attributes attributes = options("cubic", "asymmetric");
  attributes.set("cubic_coeff_a", -0.5);
  const auto y = resized(line, 16, attributes);
  for (std::size_t i = 2; i < 12; ++i) {
    const float position = static_cast<float>(i) / 2;
    EXPECT_NEAR(y[i], position * position, 1e-5F) << i;
  }
}

TEST(Resize, AnInfinityOfNoWeightHasNoPart) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(resized({1, kInfinity, 3}, 5, options("linear", "align_corners")),
              ElementsAre(1, kInfinity, kInfinity, kInfinity, 3));
  EXPECT_THAT(resized({1, 2, -kInfinity}, 6, options("linear", "half_pixel")),
              ElementsAre(1, 1.25F, 1.75F, -kInfinity, -kInfinity, -kInfinity));
}

TEST(Resize, AntialiasAverages) {
  Attributes attributes = options("linear", "half_pixel");
  attributes.set("antialias", std::int64_t{1});
  // Triangles of half width 2 around 0.5 and 2.5: weights .75 .75 .25 inside, the ends repeated.
  EXPECT_THAT(resized({0, 0, 8, 8}, 2, attributes), ElementsAre(1, 7));
}

TEST(Resize, ExcludeOutsideReweighs) {
  Attributes attributes = options("linear", "half_pixel");
  attributes.set("exclude_outside", std::int64_t{1});
  EXPECT_THAT(resized({2, 4}, 4, attributes), ElementsAre(2, 2.5F, 3.5F, 4));
}

TEST(Resize, CropExtrapolates) {
  Attributes attributes = options("linear", "tf_crop_and_resize");
  attributes.set("roi", Numbers{0.5, 1.5});
  attributes.set("extrapolation_value", 7.0);
  EXPECT_THAT(resized({0, 1, 2}, 3, attributes), ElementsAre(1, 2, 7));
  attributes.set("mode", std::string("nearest"));
  EXPECT_THAT(resized({0, 1, 2}, 3, attributes), ElementsAre(1, 2, 7));
}

TEST(Resize, DimsAreIndependent) {
  const Value x = f32({1, 1, 2, 2}, {0, 2, 4, 6});
  Attributes attributes = options("linear", "align_corners");
  attributes.set("sizes", Ints{1, 1, 3, 3});
  EXPECT_THAT(elements<float>(run("resize", {x}, attributes)),
              ElementsAre(0, 1, 2, 2, 3, 4, 4, 5, 6));
}

TEST(Resize, NearestKeepsLargeIntegers) {
  const std::int64_t big = (std::int64_t{1} << 53) + 1;
  EXPECT_THAT(elements<std::int64_t>(run("resize", {i64({1}, {big})}, {{"sizes", Ints{2}}})),
              ElementsAre(big, big));
}

TEST(Resize, Errors) {
  const Value x = random({1, 2});
  EXPECT_THAT(infer_error("resize", {x}, {{"sizes", Ints{2}}}),
              HasSubstr("wants 2 numbers, got 1"));
  EXPECT_THAT(infer_error("resize", {x}, {{"sizes", Ints{1, 9}}, {"scales", Numbers{1, 2}}}),
              HasSubstr("can't resize [1,2] to [1,9] by scales 1,2"));
  EXPECT_THAT(infer_error("resize", {f32({0}, {})}, {{"sizes", Ints{2}}}), HasSubstr("[0] to [2]"));
  EXPECT_THAT(infer_error("resize", {x}, {{"sizes", Ints{1, 2}}, {"mode", std::string("area")}}),
              HasSubstr("wants one of nearest, linear, cubic, got \"area\""));
}

}  // namespace
}  // namespace tilemesh::ops::testing
