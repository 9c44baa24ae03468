#include "free_list.hpp"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh::detail {
namespace {

/// Holes of these sizes (in units of 64 bytes), with a taken unit after each.
FreeList list_of(const std::vector<std::int64_t>& units) {
  std::int64_t total = 0;
  for (const std::int64_t u : units)
    total += u + 1;
  FreeList list(total * 64);
  std::int64_t at = 0;
  for (const std::int64_t u : units) {
    at += u;
    list.take({at * 64, 64});
    ++at;
  }
  return list;
}

TEST(FreeList, TakesTheSmallestHoleThatFits) {
  const FreeList list = list_of({256, 128, 300});
  EXPECT_EQ(list.find(128 * 64, 64, Lifetime::lasting), 257 * 64);
  EXPECT_EQ(list.find(129 * 64, 64, Lifetime::lasting), 0);
  EXPECT_EQ(list.find(301 * 64, 64, Lifetime::lasting), std::nullopt);
}

TEST(FreeList, AmongEqualHolesLastingGoesLowAndTemporaryHigh) {
  const FreeList list = list_of({8, 8, 8});
  EXPECT_EQ(list.find(4 * 64, 64, Lifetime::lasting), 0);
  EXPECT_EQ(list.find(4 * 64, 64, Lifetime::temporary), (18 + 4) * 64);
}

TEST(FreeList, AlignmentMayNeedALargerHole) {
  FreeList list(64 * 100);
  list.take({0, 64});       // leaves [64, ...)
  list.take({64 * 5, 64});  // hole [64, 320): 256 bytes, none aligned to 256 but inside
  EXPECT_EQ(list.find(128, 256, Lifetime::lasting), 64 * 8);
  EXPECT_EQ(list.find(64, 256, Lifetime::lasting), 256);
  EXPECT_EQ(list.find(64, 256, Lifetime::temporary), 256);
}

TEST(FreeList, PlacesAtBothEnds) {
  EXPECT_EQ(place_in({10, 100}, 20, 16, Lifetime::lasting), 16);
  EXPECT_EQ(place_in({10, 100}, 20, 16, Lifetime::temporary), 80);
  EXPECT_EQ(place_in({10, 20}, 20, 16, Lifetime::lasting), std::nullopt);
  EXPECT_EQ(place_in({10, 20}, 20, 16, Lifetime::temporary), std::nullopt);
  EXPECT_EQ(place_in({16, 20}, 20, 16, Lifetime::temporary), 16);
  EXPECT_EQ(place_in({16, 20}, 21, 1, Lifetime::lasting), std::nullopt);
}

TEST(FreeList, JoinsNeighboursInEveryOrder) {
  const std::vector<ByteRange> parts = {{0, 64}, {64, 64}, {128, 64}};
  std::vector<std::size_t> order = {0, 1, 2};
  do {
    FreeList list(192);
    list.take({0, 192});
    EXPECT_EQ(list.largest_bytes(), 0);
    for (const std::size_t i : order)
      list.give(parts[i]);
    EXPECT_EQ(std::vector<ByteRange>(list.holes().begin(), list.holes().end()),
              (std::vector<ByteRange>{{0, 192}}));
    EXPECT_EQ(list, FreeList(192));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(FreeList, RefusesWhatIsNotFreeAndWhatIsFreeAlready) {
  FreeList list(256);
  list.take({64, 64});
  EXPECT_THROW(list.take({64, 64}), Error);
  EXPECT_THROW(list.take({0, 128}), Error);
  EXPECT_THROW(list.give({0, 64}), Error);
  EXPECT_THROW(list.give({64, 128}), Error);
  EXPECT_EQ(list.free_bytes(), 192);
}

TEST(FreeList, ZeroBytesAreOneEmptyList) {
  const FreeList list(0);
  EXPECT_TRUE(list.holes().empty());
  EXPECT_EQ(list.find(1, 1, Lifetime::lasting), std::nullopt);
}

TEST(FreeList, FindsTheBestOfThousandsOfHolesInAnArenaOfTerabytes) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) {
    return static_cast<std::int64_t>(random() % n);
  };
  FreeList list(std::int64_t{1} << 44);
  std::vector<ByteRange> live;
  std::size_t most_holes = 0;
  for (int step = 0; step < 24000; ++step) {
    // Few sizes, so that many holes are alike, and some beyond 32 bits.
    const std::int64_t bytes = below(10) == 0 ? (std::int64_t{5} << 30) : 64 * (1 + below(6));
    const std::int64_t alignment = std::int64_t{1} << below(13);
    const Lifetime lifetime = below(2) == 0 ? Lifetime::lasting : Lifetime::temporary;
    const std::vector<ByteRange> holes(list.holes().begin(), list.holes().end());
    most_holes = std::max(most_holes, holes.size());
    const std::int64_t limit = below(4) == 0 && !holes.empty()
                                   ? holes[static_cast<std::size_t>(below(holes.size()))].offset
                                   : kAnywhere;
    ASSERT_EQ(list.find(bytes, alignment, lifetime, limit),
              best_fit(holes, bytes, alignment, lifetime, limit))
        << "step " << step;
    const auto offset = list.find(bytes, alignment, lifetime);
    ASSERT_EQ(offset, best_fit(holes, bytes, alignment, lifetime)) << "step " << step;
    if (below(10) < (step < 12000 ? 8 : 4) && offset) {
      list.take({*offset, bytes});
      live.push_back({*offset, bytes});
    } else if (!live.empty()) {
      std::swap(live[static_cast<std::size_t>(below(live.size()))], live.back());
      list.give(live.back());
      live.pop_back();
    }
  }
  EXPECT_GT(most_holes, 1000U);
  for (const ByteRange& rest : live)
    list.give(rest);
  EXPECT_EQ(list, FreeList(std::int64_t{1} << 44));
}

}  // namespace
}  // namespace tilemesh::detail
