#include "hole_index.hpp"

#include <random>
#include <set>

#include <gtest/gtest.h>

namespace tilemesh::detail {
namespace {

struct LowerOffset {
  bool operator()(const ByteRange& a, const ByteRange& b) const { return a.offset < b.offset; }
};
using Index = HoleIndex<LowerOffset>;
using Naive = std::set<ByteRange, LowerOffset>;

std::vector<std::int64_t> offsets(const auto& holes) {
  std::vector<std::int64_t> result;
  for (const ByteRange& hole : holes)
    result.push_back(hole.offset);
  return result;
}

void expect_equal(const Index& index, const Naive& naive) {
  ASSERT_EQ(offsets(index), offsets(naive));
  std::vector<std::int64_t> backward;
  for (auto hole = index.end(); hole != index.begin();)
    backward.push_back((--hole)->offset);
  std::reverse(backward.begin(), backward.end());
  ASSERT_EQ(backward, offsets(naive));
  ASSERT_EQ(index.empty(), naive.empty());
  if (!naive.empty()) {
    ASSERT_EQ(index.back(), *naive.rbegin());
  }
}

TEST(HoleIndex, OfNothingHasNoHole) {
  const Index index;
  EXPECT_TRUE(index.empty());
  EXPECT_EQ(index.begin(), index.end());
  EXPECT_EQ(index.lower_bound({5, 1}), index.end());
  EXPECT_EQ(index, Index());
}

TEST(HoleIndex, ReplacesInPlace) {
  Index index;
  for (std::int64_t i = 0; i < 200; ++i)
    index.insert({i * 10, 1});
  index.replace(index.lower_bound({1230, 0}), {1234, 7});
  const auto hole = index.lower_bound({1231, 0});
  EXPECT_EQ(*hole, (ByteRange{1234, 7}));
  EXPECT_EQ(std::prev(hole)->offset, 1220);
  EXPECT_EQ(std::next(hole)->offset, 1240);
}

TEST(HoleIndex, EqualContentsAreEqualHoweverTheyCameTogether) {
  Index up;
  Index down;
  for (std::int64_t i = 0; i < 500; ++i) {
    up.insert({i, 1});
    down.insert({499 - i, 1});
  }
  EXPECT_EQ(up, down);
  down.erase(down.lower_bound({250, 0}));
  EXPECT_FALSE(up == down);
  down.insert({250, 2});
  EXPECT_FALSE(up == down) << "another size";
}

TEST(HoleIndex, AgreesWithASetWhileItGrowsAndShrinks) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(n));
  };
  for (const std::int64_t universe : {3, 60, 130, 5000}) {
    Index index;
    Naive naive;
    for (int step = 0; step < 20'000; ++step) {
      const ByteRange hole{below(universe), 1};
      const bool grows = step / 5000 % 2 == 0 ? below(4) != 0 : below(4) == 0;
      const auto found = index.lower_bound(hole);
      const auto expected = naive.lower_bound(hole);
      ASSERT_EQ(found == index.end(), expected == naive.end());
      if (expected != naive.end()) {
        ASSERT_EQ(*found, *expected);
      }
      if (grows && naive.insert(hole).second) {
        index.insert(hole);
      } else if (!grows && expected != naive.end()) {
        index.erase(found);
        naive.erase(expected);
      }
      if (step % 250 == 0) expect_equal(index, naive);
    }
    while (!naive.empty()) {
      index.erase(index.begin());
      naive.erase(naive.begin());
    }
    expect_equal(index, naive);
  }
}

}  // namespace
}  // namespace tilemesh::detail
