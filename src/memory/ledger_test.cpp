#include "tilemesh/memory/ledger.hpp"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/math.hpp"

namespace tilemesh {
namespace {

using namespace literals;
using testing::HasSubstr;

TEST(Ledger, ReportsWhoHoldsWhat) {
  Ledger ledger(2, 1_GiB, 1_MiB);
  const auto a = ledger.allocate(Space::dram, 1_MiB, 64, Lifetime::lasting, "weights");
  const auto b = ledger.allocate(Space::dram, 2_MiB, 64, Lifetime::lasting, "weights");
  ledger.allocate(Space::dram, 512, 64, Lifetime::temporary, "x");
  ledger.allocate(Space::l1, 64, 64, Lifetime::lasting, "x");
  const MemoryReport report = ledger.report();
  ASSERT_EQ(report.spaces.size(), 2u);
  const SpaceReport& dram = report.spaces[0];
  EXPECT_EQ(dram.space, Space::dram);
  EXPECT_EQ(dram.total_bytes, 1_GiB);
  EXPECT_EQ(dram.used_bytes, 3_MiB + 512);
  EXPECT_EQ(dram.free_bytes, 1_GiB - 3_MiB - 512);
  EXPECT_EQ(dram.largest_hole_bytes, dram.free_bytes);
  ASSERT_EQ(dram.holders.size(), 2u);
  EXPECT_EQ(dram.holders[0].label, "weights");
  EXPECT_EQ(dram.holders[0].bytes, 3_MiB);
  EXPECT_EQ(dram.holders[0].count, 2);
  EXPECT_EQ(dram.holders[1].label, "x");
  EXPECT_EQ(report.spaces[1].used_bytes, 64);
  ledger.free(Space::dram, *a, "weights");
  ledger.free(Space::dram, *b, "weights");
  EXPECT_EQ(ledger.report().spaces[0].holders.size(), 1u);
  EXPECT_EQ(ledger.report().spaces[0].peak_bytes, 3_MiB + 512);
}

TEST(Ledger, AShortageNamesAskedFreeHoleAndFiveHolders) {
  Ledger ledger(1, 1_MiB, 1_KiB);
  for (int i = 1; i <= 6; ++i) {
    ledger.allocate(Space::dram, i * 1_KiB, 64, Lifetime::lasting, "tensor " + std::to_string(i));
  }
  EXPECT_EQ(ledger.allocate(Space::dram, 1_MiB, 64, Lifetime::lasting, "w"), std::nullopt);
  const std::string text = ledger.describe_shortage(Space::dram, 1_MiB, "w");
  EXPECT_EQ(text,
            "asked 1 MiB of dram for \"w\": 1003 KiB of 1 MiB are free, the largest hole has "
            "1003 KiB; largest holders: \"tensor 6\" 6 KiB, \"tensor 5\" 5 KiB, \"tensor 4\" "
            "4 KiB, \"tensor 3\" 3 KiB, \"tensor 2\" 2 KiB");
  EXPECT_THAT(ledger.describe_shortage(Space::l1, 2_KiB, "w"), HasSubstr("nothing is held"));
}

TEST(Ledger, AShortageByAFewBytesIsToldToTheByte) {
  const Ledger ledger(1, 1_MiB, 0);
  EXPECT_THAT(ledger.describe_shortage(Space::dram, 1_MiB + 1, "w"),
              testing::AllOf(HasSubstr("asked 1048577 bytes"), HasSubstr("has 1048576 bytes")));
}

TEST(Ledger, AWrongFreeChangesNothing) {
  Ledger ledger(1, 1_MiB, 0);
  const auto range = ledger.allocate(Space::dram, 128, 64, Lifetime::lasting, "w");
  ledger.free(Space::dram, {0, 64}, "w");
  ledger.free(Space::host, *range, "w");
  EXPECT_EQ(ledger.report().spaces[0].used_bytes, 128);
  EXPECT_EQ(ledger.report().spaces[0].holders.at(0).bytes, 128);
  ledger.free(Space::dram, *range, "w");
  ledger.free(Space::dram, *range, "w");
  EXPECT_EQ(ledger.report().spaces[0].used_bytes, 0);
  EXPECT_TRUE(ledger.report().spaces[0].holders.empty());
}

TEST(Ledger, HostMemoryIsNotItsBusiness) {
  Ledger ledger(1, 1_MiB, 0);
  EXPECT_THROW(ledger.allocate(Space::host, 1, 64, Lifetime::lasting, "w"), Error);
}

TEST(Ledger, ManyLabelsInTurnKeepTheBooksRight) {
  Ledger ledger(1, 1_MiB, 0);
  const auto kept = ledger.allocate(Space::dram, 64, 64, Lifetime::lasting, "kept");
  for (int i = 0; i < 5000; ++i) {
    const std::string label = "tensor " + std::to_string(i);
    const auto range = ledger.allocate(Space::dram, 64, 64, Lifetime::lasting, label);
    ledger.free(Space::dram, *range, label);
  }
  const SpaceReport dram = ledger.report().spaces[0];
  ASSERT_EQ(dram.holders.size(), 1u);
  EXPECT_EQ(dram.holders[0].label, "kept");
  EXPECT_EQ(dram.used_bytes, 64);
  ledger.free(Space::dram, *kept, "kept");
}

TEST(Ledger, ThreadsShareIt) {
  Ledger ledger(4, 1_MiB, 0);
  const auto work = [&](const std::string& label) {
    for (int i = 0; i < 500; ++i) {
      const auto range = ledger.allocate(Space::dram, 1000, 64, Lifetime::temporary, label);
      ASSERT_TRUE(range);
      ledger.free(Space::dram, *range, label);
    }
  };
  std::thread other(work, "a");
  work("b");
  other.join();
  EXPECT_EQ(ledger.report().spaces[0].used_bytes, 0);
}

}  // namespace
}  // namespace tilemesh
