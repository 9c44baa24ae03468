#include "tilemesh/memory/report.hpp"

#include <gtest/gtest.h>

namespace tilemesh {
namespace {

MemoryReport report_of(std::int64_t used, std::vector<MemoryHolder> holders) {
  SpaceReport dram{.space = Space::dram,
                   .total_bytes = 1 << 20,
                   .used_bytes = used,
                   .free_bytes = (1 << 20) - used,
                   .largest_hole_bytes = (1 << 20) - used,
                   .peak_bytes = used,
                   .holders = std::move(holders)};
  return {.spaces = {std::move(dram)}};
}

TEST(MemoryReport, SizesAreShort) {
  EXPECT_EQ(to_bytes_text(0), "0 bytes");
  EXPECT_EQ(to_bytes_text(1023), "1023 bytes");
  EXPECT_EQ(to_bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(to_bytes_text(std::int64_t{64} << 20), "64 MiB");
  EXPECT_EQ(to_bytes_text(-(std::int64_t{3} << 30)), "-3 GiB");
  EXPECT_EQ(to_bytes_text(std::int64_t{1} << 53), "8192 TiB");
}

TEST(MemoryReport, PrintsTotalsAndHolders) {
  EXPECT_EQ(report_of(3072, {{"w", 2048, 2}, {"x", 1024, 1}}).to_string(),
            "dram: 3 KiB of 1 MiB used, peak 3 KiB, largest hole 1021 KiB\n"
            "         2 KiB in    2  w\n"
            "         1 KiB in    1  x\n");
}

TEST(MemoryReport, ADifferenceShowsWhatChanged) {
  const MemoryReport before = report_of(3072, {{"w", 2048, 2}, {"x", 1024, 1}});
  const MemoryReport after = report_of(6144, {{"y", 4096, 1}, {"w", 2048, 2}});
  const MemoryReport change = after - before;
  EXPECT_TRUE(change.is_difference);
  EXPECT_EQ(change.spaces.at(0).used_bytes, 3072);
  EXPECT_EQ(change.spaces.at(0).free_bytes, -3072);
  EXPECT_EQ(change.to_string(),
            "dram: +3 KiB used, +3 KiB peak, -3 KiB largest hole\n"
            "        +4 KiB in   +1  y\n"
            "        -1 KiB in   -1  x\n");
}

TEST(MemoryReport, LeaksAreNamedAndNothingIsNoLeak) {
  EXPECT_EQ(leak_text(report_of(3072, {{"w", 2048, 2}, {"x", 1024, 1}})),
            "leak: 3 KiB of dram are held as the devices close\n"
            "         2 KiB in    2  w\n"
            "         1 KiB in    1  x\n");
  EXPECT_EQ(leak_text(report_of(0, {})), "");
  EXPECT_EQ(leak_text({}), "");
}

TEST(MemoryReport, ASpaceThatOneSideLacksCountsAsEmpty) {
  const MemoryReport some = report_of(1024, {{"w", 1024, 1}});
  EXPECT_EQ((some - MemoryReport{}).spaces.at(0).used_bytes, 1024);
  EXPECT_EQ((MemoryReport{} - some).spaces.at(0).used_bytes, -1024);
  EXPECT_EQ((MemoryReport{} - some).spaces.at(0).holders.at(0).bytes, -1024);
}

}  // namespace
}  // namespace tilemesh
