#include "backends/cpu/same_memory.hpp"

#include <gtest/gtest.h>

#include "tilemesh/types/strided.hpp"

namespace tilemesh::cpu {
namespace {

/// By the place of every element.
bool naive(const Shape& shape, const Layout& a, const Layout& b) {
  if (a.element_count(shape) != b.element_count(shape)) {
    return false;
  }
  for (std::int64_t n = 0; n < shape.element_count(); ++n) {
    Dims index;
    std::int64_t rest = n;
    for (const std::int64_t stride : row_major_strides(shape)) {
      index.push_back(rest / stride);
      rest %= stride;
    }
    if (element_offset(a, shape, index) != element_offset(b, shape, index)) {
      return false;
    }
  }
  return true;
}

TEST(SameMemory, AgreesWithThePlaceOfEveryElement) {
  const Layout layouts[] = {
      Layout::rows(),        Layout::channels_last(4), Layout::blocked(1, 4),
      Layout::blocked(1, 8), Layout::blocked(3, 4),    Layout::tiled(4, 2, 4),
      Layout::parse("abdc"), Layout::parse("bacd"),    Layout::parse("aBcd4b2b")};
  const Shape shapes[] = {{1, 8, 1, 1}, {1, 6, 1, 1}, {2, 8, 1, 1}, {2, 1, 3, 4}, {1, 1, 1, 1},
                          {1, 8, 1, 4}, {3, 4, 2, 8}, {1, 3, 4, 1}, {1, 16, 2, 1}};
  int same = 0;
  for (const Shape& shape : shapes) {
    for (const Layout& a : layouts) {
      for (const Layout& b : layouts) {
        // Padding that happens to be as large is the one thing that the places don't tell.
        if (a.padded(shape) == b.padded(shape)) {
          EXPECT_EQ(same_memory(shape, a, b), naive(shape, a, b))
              << shape.to_string() << " " << a.to_string(4) << " " << b.to_string(4);
        } else {
          EXPECT_FALSE(same_memory(shape, a, b));
        }
        same += same_memory(shape, a, b) ? 1 : 0;
      }
    }
  }
  EXPECT_GT(same, 200);
}

TEST(SameMemory, PlainNames) {
  EXPECT_TRUE(plain_layout({1, 16, 1, 1}, Layout::blocked(1, 16)).is_rows());
  EXPECT_FALSE(plain_layout({1, 17, 1, 1}, Layout::blocked(1, 16)).is_rows());
  EXPECT_TRUE(plain_layout({2, 1, 5, 7}, Layout::channels_last(4)).is_rows());
  EXPECT_FALSE(same_memory({4}, Layout::opaque({"cpu", "w", 16}), Layout::rows()));
}

}  // namespace
}  // namespace tilemesh::cpu
