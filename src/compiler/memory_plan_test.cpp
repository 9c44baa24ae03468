#include "compiler/memory_plan.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

namespace tilemesh {
namespace {

TEST(WorkspacePlan, NothingNeedsNothing) {
  EXPECT_EQ(plan_memory({}).bytes, 0);
}

TEST(WorkspacePlan, ZeroSizesTakeNoRoom) {
  const std::vector<ValueLifetime> lifetimes{{0, 0, 9}, {10, 0, 9}, {0, 3, 4}};
  EXPECT_EQ(plan_memory(lifetimes).bytes, 64);
}

TEST(WorkspacePlan, AChainNeedsTwoBuffers) {
  std::vector<ValueLifetime> chain;
  for (std::size_t i = 0; i < 20; ++i)
    chain.push_back({1000, i, i + 1});
  EXPECT_EQ(plan_memory(chain).bytes, 2 * 1024);
}

TEST(WorkspacePlan, TheTightestGapIsTaken) {
  // Big ones at both ends of a gap of 128 and one of 64 bytes; a small one fits both.
  const std::vector<ValueLifetime> lifetimes{{640, 0, 9}, {128, 0, 1}, {512, 0, 9}, {64, 5, 5}};
  const WorkspacePlan plan = plan_memory(lifetimes);
  EXPECT_EQ(plan.bytes, 640 + 512 + 128);
}

RC_GTEST_PROP(WorkspacePlan, LivesThatMeetDontShare, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(0, 40);
  std::vector<ValueLifetime> lifetimes;
  for (std::size_t i = 0; i < count; ++i) {
    const auto first = *rc::gen::inRange<std::size_t>(0, 30);
    lifetimes.push_back({*rc::gen::inRange<std::int64_t>(0, 1000), first,
                         first + *rc::gen::inRange<std::size_t>(0, 8)});
  }
  const WorkspacePlan plan = plan_memory(lifetimes);
  std::int64_t largest_sum = 0;
  for (std::size_t step = 0; step < 40; ++step) {
    std::int64_t sum = 0;
    for (const ValueLifetime& life : lifetimes) {
      if (life.first <= step && step <= life.last) sum += (life.bytes + 63) / 64 * 64;
    }
    largest_sum = std::max(largest_sum, sum);
  }
  std::int64_t all = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const ValueLifetime& a = lifetimes[i];
    all += (a.bytes + 63) / 64 * 64;
    RC_ASSERT(plan.offsets[i] % 64 == 0);
    RC_ASSERT(plan.offsets[i] >= 0 && plan.offsets[i] + a.bytes <= plan.bytes);
    for (std::size_t j = 0; j < i; ++j) {
      const ValueLifetime& b = lifetimes[j];
      const bool meet = a.first <= b.last && b.first <= a.last;
      const bool overlap = plan.offsets[i] < plan.offsets[j] + b.bytes &&
                           plan.offsets[j] < plan.offsets[i] + a.bytes;
      RC_ASSERT(!(meet && overlap && a.bytes > 0 && b.bytes > 0));
    }
  }
  RC_ASSERT(plan.bytes >= largest_sum && plan.bytes <= all);
}

}  // namespace
}  // namespace tilemesh
