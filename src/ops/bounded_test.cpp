#include <limits>

#include "testing.hpp"

namespace tilemesh::ops::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<std::int64_t> integers(const Value& value) {
  return elements<std::int64_t>(value);
}

TEST(Compress, TakesSlicesAndFillsUpWithZeros) {
  const Value x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto y = run_all("compress", {x, boolean({3}, {1, 0, 1})}, {{"axis", std::int64_t{1}}}, 2);
  EXPECT_THAT(elements<float>(y[0]), ElementsAre(1, 3, 0, 4, 6, 0));
  EXPECT_THAT(integers(y[1]), ElementsAre(2));
  const auto first = run_all("compress", {x, boolean({1}, {1})}, {}, 2);
  EXPECT_THAT(elements<float>(first[0]), ElementsAre(1, 2, 3));
  EXPECT_THAT(infer_error("compress", {x, boolean({3}, {1, 1, 1})}, {}, 2),
              HasSubstr("the condition has 3 elements, axis 0"));
}

TEST(NonZero, GivesAColumnForEach) {
  const auto y = run_all("non_zero", {f32({2, 2}, {0, kNaN, -0.0F, 2})}, {}, 2);
  EXPECT_THAT(integers(y[0]), ElementsAre(0, 1, -1, -1, 1, 1, -1, -1));
  EXPECT_THAT(integers(y[1]), ElementsAre(2));
  const auto none = run_all("non_zero", {boolean({0, 3}, {})}, {}, 2);
  EXPECT_EQ(none[0].type.shape, (Shape{2, 0}));
  EXPECT_THAT(integers(none[1]), ElementsAre(0));
}

TEST(Unique, SortsOrKeepsTheOrder) {
  const Value x = f32({6}, {2, 1, 1, 3, 4, 3});
  const auto sorted = run_all("unique", {x}, {}, 5);
  EXPECT_THAT(elements<float>(sorted[0]), ElementsAre(1, 2, 3, 4, 0, 0));
  EXPECT_THAT(integers(sorted[1]), ElementsAre(4));
  EXPECT_THAT(integers(sorted[2]), ElementsAre(1, 0, 3, 4, -1, -1));
  EXPECT_THAT(integers(sorted[3]), ElementsAre(1, 0, 0, 2, 3, 2));
  EXPECT_THAT(integers(sorted[4]), ElementsAre(2, 1, 2, 1, 0, 0));
  const auto kept = run_all("unique", {x}, {{"sorted", std::int64_t{0}}}, 5);
  EXPECT_THAT(elements<float>(kept[0]), ElementsAre(2, 1, 3, 4, 0, 0));
  EXPECT_THAT(integers(kept[2]), ElementsAre(0, 1, 3, 4, -1, -1));
  EXPECT_THAT(integers(kept[3]), ElementsAre(0, 1, 1, 2, 3, 2));
  EXPECT_THAT(integers(kept[4]), ElementsAre(1, 2, 2, 1, 0, 0));
}

TEST(Unique, ComparesSlices) {
  const Value x = f32({3, 2}, {1, 0, 1, 0, 0, 5});
  const auto y = run_all("unique", {x}, {{"axis", std::int64_t{0}}}, 5);
  EXPECT_THAT(elements<float>(y[0]), ElementsAre(0, 5, 1, 0, 0, 0));
  EXPECT_THAT(integers(y[2]), ElementsAre(2, 0, -1));
  const auto columns = run_all("unique", {x}, {{"axis", std::int64_t{1}}}, 5);
  EXPECT_THAT(elements<float>(columns[0]), ElementsAre(0, 1, 0, 1, 5, 0));
}

TEST(Unique, HoldsWhatIsNoNumberForOneValue) {
  const auto y = run_all("unique", {f32({4}, {kNaN, 1, kNaN, -0.0F})}, {}, 5);
  EXPECT_THAT(integers(y[1]), ElementsAre(3));
  EXPECT_THAT(integers(y[4]), ElementsAre(1, 1, 2, 0));
}

std::vector<Value> suppress(const Value& boxes, const Value& scores, std::int64_t most,
                            float overlap, float score, bool centers = false) {
  return run_all("non_max_suppression", {boxes, scores, f32({1}, {overlap}), f32({1}, {score})},
                 {{"max_per_class", most}, {"centers", std::int64_t{centers}}}, 2);
}

TEST(NonMaxSuppression, KeepsTheBestOfOverlappingBoxes) {
  // The first two share 9 of 11 parts; corners may come in any order.
  const Value boxes = f32({1, 3, 4}, {0, 0, 1, 1, 1, 1.1F, 0, 0.1F, 5, 5, 6, 6});
  const Value scores = f32({1, 2, 3}, {0.5F, 0.9F, 0.7F, 0.1F, 0.2F, 0.3F});
  const auto y = suppress(boxes, scores, 3, 0.5F, 0.15F);
  EXPECT_THAT(integers(y[0]),
              ElementsAre(0, 0, 1, 0, 0, 2, 0, 1, 2, 0, 1, 1, -1, -1, -1, -1, -1, -1));
  EXPECT_THAT(integers(y[1]), ElementsAre(4));
  const auto two = suppress(boxes, scores, 1, 0.5F, 0.15F);
  EXPECT_THAT(integers(two[0]), ElementsAre(0, 0, 1, 0, 1, 2));
  const auto all = suppress(boxes, scores, 9, 0.9F, 0.0F);
  EXPECT_THAT(integers(all[1]), ElementsAre(6));
}

TEST(NonMaxSuppression, ABoxAtTheThresholdStays) {
  // Two of three parts shared: an overlap of exactly 1/2.
  const Value boxes = f32({1, 2, 4}, {0, 0, 1, 3, 0, 1, 1, 4});
  const Value scores = f32({1, 1, 2}, {1, 1});
  EXPECT_THAT(integers(suppress(boxes, scores, 2, 0.5F, 0)[1]), ElementsAre(2));
  EXPECT_THAT(integers(suppress(boxes, scores, 2, 0.49F, 0)[1]), ElementsAre(1));
}

TEST(NonMaxSuppression, TakesCentersAndEqualScoresInOrder) {
  const Value boxes = f32({1, 3, 4}, {0, 0, 2, 2, 0.1F, 0, 2, 2, 9, 9, 1, 1});
  const Value scores = f32({1, 1, 3}, {0.5F, 0.5F, kNaN});
  const auto y = suppress(boxes, scores, 3, 0.5F, 0, true);
  EXPECT_THAT(integers(y[0]), ElementsAre(0, 0, 0, -1, -1, -1, -1, -1, -1));
  EXPECT_THROW(suppress(boxes, scores, 3, 1.5F, 0), Error);
  EXPECT_THAT(
      infer_error("non_max_suppression", {f32({1, 2, 4}, std::vector<float>(8)), scores}, {}, 2),
      HasSubstr("wants shape [1,3,4]"));
  EXPECT_EQ(run_all("non_max_suppression", {boxes, scores}, {}, 2)[0].type.shape, (Shape{0, 3}));
}

}  // namespace
}  // namespace tilemesh::ops::testing
