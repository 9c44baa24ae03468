#include "free_list.hpp"

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
    ASSERT_EQ(list.holes().size(), 1u);
    EXPECT_EQ(list.holes()[0], (ByteRange{0, 192}));
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

}  // namespace
}  // namespace tilemesh::detail
