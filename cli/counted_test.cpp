#include "counted.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tilemesh::cli {
namespace {

using ::testing::ElementsAre;

HostArray bytes_of(const Shape& shape) {
  HostArray array{DType::u8, shape, {}};
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    array.bytes.push_back(static_cast<std::byte>(i));
  }
  return array;
}

TEST(CountedPart, CutsDimsThatACountShortens) {
  const HostArray part = counted_part(bytes_of({3, 4}), {3, 2}, {7, 2});
  EXPECT_EQ(part.shape, (Shape{3, 2}));
  EXPECT_THAT(part.bytes, ElementsAre(std::byte{0}, std::byte{1}, std::byte{4}, std::byte{5},
                                      std::byte{8}, std::byte{9}));
  EXPECT_EQ(counted_part(bytes_of({3, 4}), {0, 4}, {0}).bytes.size(), 0U);
}

TEST(CountedPart, LeavesWhatNoCountExplains) {
  EXPECT_EQ(counted_part(bytes_of({3, 4}), {3, 2}, {}).shape, (Shape{3, 4}));
  EXPECT_EQ(counted_part(bytes_of({3, 4}), {3, 2}, {1, 3}).shape, (Shape{3, 4}));
  EXPECT_EQ(counted_part(bytes_of({3, 4}), {3, 5}, {5}).shape, (Shape{3, 4}));
  EXPECT_EQ(counted_part(bytes_of({3, 4}), {3}, {3}).shape, (Shape{3, 4}));
}

}  // namespace
}  // namespace tilemesh::cli
