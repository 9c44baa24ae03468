#include "tilemesh/types/mesh_range.hpp"

#include <ostream>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace tilemesh {

void PrintTo(const MeshShape& shape, std::ostream* out) {
  *out << shape.to_string();
}

namespace {

using Naive = std::set<std::vector<std::int32_t>>;

std::vector<std::int32_t> plain(const MeshCoord& coord) {
  return {coord.begin(), coord.end()};
}

template <class Coords>
Naive naive(const Coords& coords) {
  Naive result;
  for (const MeshCoord& coord : coords)
    result.insert(plain(coord));
  return result;
}

bool refused(const MeshCoord& first, const MeshCoord& last) {
  try {
    const MeshRange range(first, last);
    return false;
  } catch (const Error& error) {
    return error.code() == ErrorCode::invalid_argument;
  }
}

TEST(MeshRange, BothEndsBelongToIt) {
  const MeshRange range({0, 1}, {1, 2});
  EXPECT_EQ(range.shape(), MeshShape({2, 2}));
  EXPECT_EQ(range.device_count(), 4);
  EXPECT_TRUE(range.contains(MeshCoord{1, 2}));
  EXPECT_FALSE(range.contains(MeshCoord{1, 3}));
  EXPECT_FALSE(range.contains(MeshCoord{1}));
  EXPECT_EQ(range.to_string(), "(0,1)-(1,2)");
  EXPECT_EQ(MeshRange::at({3, 4}).to_string(), "(3,4)");
  EXPECT_EQ(MeshRange::all({2, 3}), MeshRange({0, 0}, {1, 2}));
}

TEST(MeshRange, RefusesWhatIsNoBox) {
  EXPECT_TRUE(refused({}, {}));
  EXPECT_TRUE(refused({0, 0}, {0}));
  EXPECT_TRUE(refused({1, 0}, {0, 5}));
  EXPECT_TRUE(refused({-1, 0}, {0, 0}));
  EXPECT_FALSE(refused({5}, {5}));
}

TEST(MeshRange, IteratesInRowMajorOrder) {
  std::string text;
  for (const MeshCoord& coord : MeshRange({0, 1, 2}, {1, 1, 3}))
    text += to_string(coord);
  EXPECT_EQ(text, "(0,1,2)(0,1,3)(1,1,2)(1,1,3)");
  const MeshRange one = MeshRange::at({7});
  EXPECT_EQ(std::distance(one.begin(), one.end()), 1);
}

TEST(MeshRange, OtherAxesHaveNothingInCommon) {
  EXPECT_EQ(MeshRange({0}, {3}).intersect(MeshRange({0, 0}, {3, 3})), std::nullopt);
  EXPECT_EQ(MeshRange({0}, {3}).subtract(MeshRange({0, 0}, {3, 3})).size(), 1U);
}

TEST(MeshRangeSet, MergesWhatTogetherIsABox) {
  MeshRangeSet set{MeshRange({0, 0}, {0, 1}), MeshRange({1, 0}, {1, 1})};
  EXPECT_EQ(set.to_string(), "(0,0)-(1,1)");
  set.subtract(MeshRange::at({1, 1}));
  EXPECT_EQ(set.device_count(), 3);
  set.add(MeshRange::at({1, 1}));
  EXPECT_EQ(set.ranges(), std::vector{MeshRange({0, 0}, {1, 1})});
  EXPECT_EQ(MeshRangeSet().to_string(), "nothing");
  EXPECT_THROW(set.add(MeshRange::at({0})), Error);
}

/// Random boxes in a small mesh, against sets of coordinates.
class MeshRangeProperty : public testing::TestWithParam<MeshShape> {
 protected:
  std::mt19937 random_{std::random_device()()};

  std::int32_t below(std::int32_t n) {
    return static_cast<std::int32_t>(random_() % static_cast<std::uint32_t>(n));
  }
  MeshRange box() {
    MeshCoord first;
    MeshCoord last;
    for (const std::int32_t size : GetParam().sizes()) {
      first.push_back(below(size));
      last.push_back(first.back() + below(size - first.back()));
    }
    return {first, last};
  }
  MeshRangeSet some() {
    MeshRangeSet set;
    for (int n = below(4); n > 0; --n)
      set.add(box());
    return set;
  }
};

Naive both(const Naive& a, const Naive& b) {
  Naive result;
  for (const auto& coord : a) {
    if (b.contains(coord)) result.insert(coord);
  }
  return result;
}

Naive without(Naive a, const Naive& b) {
  for (const auto& coord : b)
    a.erase(coord);
  return a;
}

TEST_P(MeshRangeProperty, RangesActAsSetsOfCoordinates) {
  for (int round = 0; round < 500; ++round) {
    const MeshRange a = box();
    const MeshRange b = box();
    SCOPED_TRACE(a.to_string() + " and " + b.to_string());
    ASSERT_EQ(std::cmp_equal(naive(a).size(), a.device_count()), true);
    const auto common = a.intersect(b);
    ASSERT_EQ(common ? naive(*common) : Naive(), both(naive(a), naive(b)));
    ASSERT_EQ(a.contains(b), without(naive(b), naive(a)).empty());
    Naive rest;
    std::size_t count = 0;
    for (const MeshRange& part : a.subtract(b)) {
      rest.merge(naive(part));
      count += static_cast<std::size_t>(part.device_count());
    }
    ASSERT_EQ(rest, without(naive(a), naive(b)));
    ASSERT_EQ(rest.size(), count) << "parts overlap";
  }
}

TEST_P(MeshRangeProperty, SetsActAsSetsOfCoordinates) {
  for (int round = 0; round < 300; ++round) {
    const MeshRangeSet a = some();
    const MeshRangeSet b = some();
    SCOPED_TRACE(a.to_string() + " and " + b.to_string());
    const Naive na = naive(a.coords());
    const Naive nb = naive(b.coords());
    ASSERT_TRUE(std::cmp_equal(na.size(), a.device_count())) << "ranges overlap";
    MeshRangeSet sum = a;
    sum.add(b);
    Naive expected = na;
    expected.insert(nb.begin(), nb.end());
    ASSERT_EQ(naive(sum.coords()), expected);
    MeshRangeSet rest = a;
    rest.subtract(b);
    ASSERT_EQ(naive(rest.coords()), without(na, nb));
    ASSERT_EQ(naive(a.intersect(b).coords()), both(na, nb));
    ASSERT_EQ(a.intersects(b), !both(na, nb).empty());
    ASSERT_EQ(a.contains(b), without(nb, na).empty());
    ASSERT_EQ(a == b, na == nb);
    // In row-major order, whatever the boxes.
    const auto coords = sum.coords();
    for (std::size_t i = 1; i < coords.size(); ++i)
      ASSERT_LT(plain(coords[i - 1]), plain(coords[i]));
    for (const MeshCoord& coord : MeshRange::all(GetParam()))
      ASSERT_EQ(sum.contains(coord), expected.contains(plain(coord)));
  }
}

TEST_P(MeshRangeProperty, NoTwoRangesOfASetAreOneBox) {
  for (int round = 0; round < 200; ++round) {
    MeshRangeSet set = some();
    set.subtract(some());
    for (const MeshRange& a : set.ranges()) {
      for (const MeshRange& b : set.ranges()) {
        if (a == b) continue;
        ASSERT_GT(MeshRangeSet({a, b}).ranges().size(), 1U) << set.to_string();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, MeshRangeProperty,
                         testing::Values(MeshShape{1}, MeshShape{7}, MeshShape{1, 2},
                                         MeshShape{4, 5}, MeshShape{3, 2, 4}),
                         [](const auto& mesh) {
                           std::string name = "mesh";
                           for (const std::int32_t size : mesh.param.sizes())
                             name += "_" + std::to_string(size);
                           return name;
                         });

TEST(MeshShape, NoDevicesAreNoMesh) {
  for (const std::vector<std::int32_t>& sizes :
       {std::vector<std::int32_t>{0, 0}, {0}, {1, 0}, {-1, 2}, {}, {1, 1, 1, 1}}) {
    EXPECT_THROW(MeshShape{std::span<const std::int32_t>(sizes)}, Error);
  }
}

}  // namespace
}  // namespace tilemesh
