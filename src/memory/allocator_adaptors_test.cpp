#include "tilemesh/memory/allocator_adaptors.hpp"

#include <gtest/gtest.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/memory/ledger.hpp"

namespace tilemesh {
namespace {

std::unique_ptr<Allocator> arena(std::int64_t bytes, int devices = 2) {
  return std::make_unique<LockstepAllocator>(devices, bytes);
}

AllocationRequest bytes(std::int64_t count, const std::vector<int>* devices = nullptr) {
  return {.bytes = count, .alignment = 64, .lifetime = Lifetime::lasting, .devices = devices};
}

TEST(LimitAllocator, HoldsEachDeviceToItsLimit) {
  LimitAllocator limited(arena(4096), 1000);
  EXPECT_EQ(limited.arena_bytes(), 1000);
  EXPECT_EQ(limited.largest_hole_bytes(nullptr), 1000);
  const std::vector<int> left = {0};
  const std::vector<int> right = {1};
  const auto a = limited.take(bytes(640, &left));
  ASSERT_TRUE(a);
  EXPECT_EQ(limited.take(bytes(640, &left)), std::nullopt);
  EXPECT_EQ(limited.take(bytes(640)), std::nullopt) << "one of its devices is full";
  EXPECT_TRUE(limited.take(bytes(640, &right)));
  EXPECT_EQ(limited.largest_hole_bytes(nullptr), 360);
  EXPECT_EQ(limited.take(bytes(360, &left)), std::nullopt) << "rounded up it is 384";
  EXPECT_EQ(limited.used_bytes(0), 640) << "what didn't fit was given back";
  limited.give(&left, *a);
  EXPECT_TRUE(limited.take(bytes(960, &left)));
  EXPECT_EQ(LimitAllocator(arena(64), 1000).arena_bytes(), 64) << "a limit adds nothing";
  EXPECT_THROW(LimitAllocator(arena(64), -1), Error);
}

TEST(LogAllocator, TellsEveryStep) {
  std::vector<std::string> lines;
  LogAllocator logged(arena(128), [&](const std::string& line) { lines.push_back(line); });
  const std::vector<int> right = {1};
  const auto range = logged.take(bytes(100, &right));
  logged.take(bytes(1));
  logged.give(&right, *range);
  EXPECT_EQ(lines, (std::vector<std::string>{"take 100 bytes aligned to 64 on 1: 128 at 0",
                                             "take 1 bytes aligned to 64 on all: no room",
                                             "give 128 bytes at 0 on 1"}));
}

TEST(StatisticsAllocator, CountsWhatPasses) {
  const auto counts = std::make_shared<AllocationStatistics>();
  StatisticsAllocator counted(arena(1024), counts);
  const auto a = counted.take(bytes(100));
  counted.take(bytes(512));
  counted.take(bytes(512));
  counted.give(nullptr, *a);
  EXPECT_EQ(counts->takes, 2);
  EXPECT_EQ(counts->refusals, 1);
  EXPECT_EQ(counts->gives, 1);
  EXPECT_EQ(counts->live_count(), 1);
  EXPECT_EQ(counts->taken_bytes, 640);
  EXPECT_EQ(counts->largest_bytes, 512);
}

TEST(FailingAllocator, RefusesFromTheNthOn) {
  FailingAllocator failing(arena(1024), 2, 2);
  EXPECT_TRUE(failing.take(bytes(64)));
  EXPECT_FALSE(failing.take(bytes(64)));
  EXPECT_FALSE(failing.take(bytes(64)));
  EXPECT_TRUE(failing.take(bytes(64)));
  EXPECT_EQ(failing.used_bytes(0), 128);
}

TEST(AllocatorAdaptor, AdaptorsStackInAnyOrderAndServeALedger) {
  const auto counts = std::make_shared<AllocationStatistics>();
  Ledger ledger(2, 4096, 1024, [&](Space space, std::unique_ptr<Allocator> inner) {
    if (space == Space::l1) return inner;
    inner = std::make_unique<LimitAllocator>(std::move(inner), 1024);
    inner = std::make_unique<FailingAllocator>(std::move(inner), 2, 1);
    inner = std::make_unique<StatisticsAllocator>(std::move(inner), counts);
    return inner;
  });
  EXPECT_EQ(ledger.report().spaces.at(0).total_bytes, 1024);
  EXPECT_EQ(ledger.report().spaces.at(1).total_bytes, 1024);
  const auto a = ledger.allocate(Space::dram, 512, 64, Lifetime::lasting, "a");
  ASSERT_TRUE(a);
  EXPECT_FALSE(ledger.allocate(Space::dram, 64, 64, Lifetime::lasting, "fails"));
  EXPECT_FALSE(ledger.allocate(Space::dram, 576, 64, Lifetime::lasting, "over the limit"));
  EXPECT_TRUE(ledger.allocate(Space::dram, 512, 64, Lifetime::lasting, "b"));
  ledger.free(Space::dram, *a, "a");
  EXPECT_EQ(counts->takes, 2);
  EXPECT_EQ(counts->refusals, 2);
  EXPECT_EQ(ledger.report().spaces.at(0).used_bytes, 512);
  EXPECT_THROW(AllocatorAdaptor(nullptr), Error);
}

TEST(Ledger, ReportsTheDevicesAskedFor) {
  Ledger ledger(3, 4096, 1024);
  const std::vector<int> left = {0};
  const std::vector<int> pair = {1, 2};
  const auto w = ledger.allocate(Space::dram, 1024, 64, Lifetime::lasting, "w");
  const auto a = ledger.allocate(Space::dram, 2048, 64, Lifetime::lasting, "w", &left);
  const auto b = ledger.allocate(Space::dram, 512, 64, Lifetime::lasting, "b", &pair);
  ASSERT_TRUE(w && a && b);
  const auto dram = [&](const std::vector<int>* devices) {
    return ledger.report(devices).spaces.at(0);
  };
  EXPECT_EQ(dram(nullptr).used_bytes, 3072);
  EXPECT_EQ(dram(nullptr).largest_hole_bytes, 1024);
  EXPECT_EQ(dram(&pair).used_bytes, 1536);
  EXPECT_EQ(dram(&pair).largest_hole_bytes, 2560);
  ASSERT_EQ(dram(&left).holders.size(), 1U);
  EXPECT_EQ(dram(&left).holders[0].bytes, 3072);
  EXPECT_EQ(dram(&left).holders[0].count, 2);
  ASSERT_EQ(dram(&pair).holders.size(), 2U);
  EXPECT_EQ(dram(&pair).holders[0].bytes, 1024);
  EXPECT_EQ(dram(&pair).holders[1].label, "b");
  EXPECT_EQ(ledger.describe_shortage(Space::dram, 4096, "x", &pair, "submesh 1x2"),
            "asked 4 KiB of dram for \"x\" on submesh 1x2: 2.5 KiB of 4 KiB are free, the largest "
            "hole has 2.5 KiB; largest holders: \"w\" 1 KiB, \"b\" 512 bytes");
  // Freed for other devices than it was given for, nothing changes.
  ledger.free(Space::dram, *a, "w", &pair);
  EXPECT_EQ(dram(&left).used_bytes, 3072);
  ledger.free(Space::dram, *a, "w", &left);
  ledger.free(Space::dram, *b, "b", &pair);
  ledger.free(Space::dram, *w, "w");
  EXPECT_TRUE(dram(nullptr).holders.empty());
  EXPECT_EQ(dram(nullptr).largest_hole_bytes, 4096);
}

}  // namespace
}  // namespace tilemesh
