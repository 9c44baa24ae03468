#include "tilemesh/device/ring_queue.hpp"

#include <memory>

#include <gtest/gtest.h>

namespace tilemesh {
namespace {

using detail::RingQueue;

TEST(RingQueue, KeepsTheOrderAcrossGrowthAndWrapping) {
  RingQueue<std::unique_ptr<int>> queue;
  int pushed = 0;
  int popped = 0;
  for (int round = 1; round < 40; ++round) {
    for (int i = 0; i < round; ++i) {
      queue.push_back(std::make_unique<int>(pushed++));
    }
    for (int i = 0; i < round / 2; ++i) {
      ASSERT_EQ(*queue.pop_front(), popped++);
    }
  }
  EXPECT_EQ(std::cmp_equal(queue.size(), pushed - popped), true);
  while (!queue.empty()) {
    ASSERT_EQ(*queue.pop_front(), popped++);
  }
  EXPECT_EQ(popped, pushed);
  EXPECT_THROW(queue.pop_front(), Error);
}

}  // namespace
}  // namespace tilemesh
