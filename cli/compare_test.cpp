#include "compare.hpp"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tilemesh/types/dtype_traits.hpp"

namespace tilemesh::cli {
namespace {

template <class T>
HostArray array(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span<const T>(values));
  return {
      kDTypeOf<T>, Shape{static_cast<std::int64_t>(values.size())}, {bytes.begin(), bytes.end()}};
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

TEST(Compare, FloatsWithinTheToleranceAreEqual) {
  const Tolerance tolerance{0.1, 0.5, 0};
  EXPECT_TRUE(compare(array<float>({10, 0}), array<float>({11.5F, 0.5F}), tolerance).equal);
  const Comparison found = compare(array<float>({10, 0}), array<float>({12, 0}), tolerance);
  EXPECT_FALSE(found.equal);
  EXPECT_EQ(found.max_error, 2);
  EXPECT_NEAR(found.max_relative_error, 2.0 / 12, 1e-9);
  EXPECT_THAT(found.reason, ::testing::HasSubstr("1 of 2 elements differ, worst at [0]"));
}

TEST(Compare, ReportsErrorsWithinTheTolerance) {
  const Comparison found = compare(array<float>({1}), array<float>({1.25F}), {1, 0});
  EXPECT_TRUE(found.equal);
  EXPECT_EQ(found.max_error, 0.25);
}

TEST(Compare, NanEqualsNanAndInfinityOnlyItself) {
  const Tolerance wide{1e9, 1e9, 1e9};
  EXPECT_TRUE(
      compare(array<float>({kNan, kInfinity}), array<float>({kNan, kInfinity}), wide).equal);
  EXPECT_FALSE(compare(array<float>({kInfinity}), array<float>({-kInfinity}), wide).equal);
  EXPECT_FALSE(compare(array<float>({kNan}), array<float>({1}), wide).equal);
  EXPECT_FALSE(compare(array<float>({1}), array<float>({kInfinity}), wide).equal);
  EXPECT_TRUE(std::isinf(compare(array<float>({1}), array<float>({kNan}), wide).max_error));
}

TEST(Compare, AnErrorMayBeSmallAgainstItsTensor) {
  const auto expected = array<float>({1000, 0, kInfinity, kNan, -0.001F});
  const auto got = array<float>({1000, 0.0078125F, kInfinity, kNan, 0.001F});
  const Comparison found = compare(got, expected, {0, 0, 1e-5});
  EXPECT_TRUE(found.equal) << found.reason;  // 0.0078 against 1000
  EXPECT_EQ(found.max_scaled_error, 0.0078125 / 1000);
  EXPECT_TRUE(std::isinf(found.max_relative_error));
  EXPECT_FALSE(compare(got, expected, {0, 0, 1e-6}).equal);
  EXPECT_FALSE(compare(got, expected, {0, 0, 0}).equal);
  // An infinity isn't the scale of the others, and must be where it should be.
  EXPECT_FALSE(
      compare(array<float>({kInfinity, 1}), array<float>({1, kInfinity}), {0, 0, 1}).equal);
  EXPECT_FALSE(
      compare(array<float>({2, kInfinity}), array<float>({1, kInfinity}), {0, 0, 0.5}).equal);
  EXPECT_FALSE(compare(array<float>({1e-30F}), array<float>({0}), {0, 0, 1}).equal);
}

TEST(Compare, QuantisedResultsMayBeStepsApartWhereAskedFor) {
  const auto expected = array<std::int8_t>({-128, 5});
  const auto got = array<std::int8_t>({-127, 5});
  EXPECT_FALSE(compare(got, expected, {}).equal);
  EXPECT_TRUE(compare(got, expected, {.steps = 1}).equal);
  EXPECT_FALSE(compare(array<std::int8_t>({-126, 5}), expected, {.steps = 1}).equal);
  EXPECT_FALSE(compare(array<std::int32_t>({1}), array<std::int32_t>({2}), {.steps = 1}).equal);
}

TEST(Compare, IntegersAreExact) {
  const Tolerance wide{1, 1, 1};
  const std::int64_t large = std::int64_t{1} << 53;
  EXPECT_TRUE(compare(array<std::int64_t>({large}), array<std::int64_t>({large}), wide).equal);
  const Comparison found =
      compare(array<std::int64_t>({large}), array<std::int64_t>({large + 1}), wide);
  EXPECT_FALSE(found.equal);
  EXPECT_EQ(found.max_error, 1);
}

TEST(Compare, HalvesMayDifferByOneUnitInTheLastPlace) {
  const BFloat16 one(1.0F);
  BFloat16 next = one;
  ++next.bits;
  EXPECT_TRUE(compare(array<BFloat16>({next}), array<BFloat16>({one}), {0, 0}).equal);
  ++next.bits;
  EXPECT_FALSE(compare(array<BFloat16>({next}), array<BFloat16>({one}), {0, 0}).equal);
}

TEST(Compare, ShapesAndDTypesHaveToBeTheSame) {
  EXPECT_THAT(compare(array<float>({1}), array<double>({1}), {}).reason,
              ::testing::HasSubstr("f32[1], expected is f64[1]"));
  EXPECT_FALSE(compare(array<float>({1}), array<float>({1, 1}), {}).equal);
  EXPECT_TRUE(compare(array<float>({}), array<float>({}), {}).equal);
}

}  // namespace
}  // namespace tilemesh::cli
