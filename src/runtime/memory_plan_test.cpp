#include "tilemesh/runtime/memory_plan.hpp"

#include <limits>

#include <gtest/gtest.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh {
namespace {

/// One input of 100 elements in dram, one of 10 in l1, an output beside and one in place of "x".
Program sample(const std::string& name) {
  Program program;
  program.name = name;
  program.values = {
      {"x", {.shape = {100}}, {Storage::Kind::input, 0, 0}},
      {"s", {.shape = {10}, .space = Space::l1}, {Storage::Kind::input, 1, 0}},
      {"y", {.shape = {50}}, {Storage::Kind::output, 0, 0}},
      {"w", {.shape = {1000}}, {Storage::Kind::constant, 0, 0}},
      {"same", {.shape = {1000}}, {Storage::Kind::constant, 1, 0}},
      {"other", {.shape = {1000}}, {Storage::Kind::constant, 2, 0}},
  };
  program.inputs = {{"x", 0, InputKind::state}, {"s", 1}};
  program.outputs = {{"y", 2, -1}, {"next", 0, 0}};
  program.constants = {{3, 0, 4000, 7}, {4, 4032, 4000, 7}, {5, 8064, 4000, 8}};
  program.dram_workspace_bytes = 65;
  return program;
}

TEST(MemoryPlan, SumsBySpaceAndKind) {
  const MemoryPlan plan = plan_memory(sample("p"), {.dram_bytes = 9024, .l1_bytes = 64});
  ASSERT_EQ(plan.spaces.size(), 2U);
  const SpacePlan& dram = plan.spaces[0];
  EXPECT_EQ(dram.constants_bytes, 2 * 4032);  // equal ones once
  EXPECT_EQ(dram.inputs_bytes, 448);
  EXPECT_EQ(dram.outputs_bytes, 256);  // the one in place takes nothing
  EXPECT_EQ(dram.workspace_bytes, 128);
  EXPECT_EQ(dram.peak_bytes(), 8896);
  EXPECT_EQ(plan.spaces[1].peak_bytes(), 64);
  EXPECT_TRUE(plan.fits());
  EXPECT_EQ(plan.shortage(), "");
  EXPECT_EQ(dram.holders.front().label, "p.w");
  EXPECT_EQ(dram.holders.back().label, "p.workspace");
}

TEST(MemoryPlan, SaysWhatIsAskedThereAndHeldWhenOneByteIsMissing) {
  EXPECT_TRUE(plan_memory(sample("p"), {.dram_bytes = 8896, .l1_bytes = 64}).fits());
  const MemoryPlan plan = plan_memory(sample("p"), {.dram_bytes = 8895, .l1_bytes = 64});
  EXPECT_FALSE(plan.fits());
  EXPECT_TRUE(plan.spaces[1].fits());
  EXPECT_EQ(plan.shortage(),
            "dram doesn't fit: asked 8.7 KiB a device (8896 bytes), available 8.7 KiB (8895 "
            "bytes); largest holders: constant \"p.w\" 3.9 KiB, constant \"p.other\" 3.9 KiB, "
            "input \"p.x\" 448 bytes, output \"p.y\" 256 bytes, workspace \"p.workspace\" 128 "
            "bytes");
}

TEST(MemoryPlan, ProgramsShareEqualConstantsOnly) {
  const std::vector<Program> both = {sample("p"), sample("q")};
  const MemoryPlan plan = plan_memory(both, {.dram_bytes = 1 << 20, .l1_bytes = 64});
  EXPECT_EQ(plan.spaces[0].constants_bytes, 2 * 4032);
  EXPECT_EQ(plan.spaces[0].inputs_bytes, 2 * 448);
  EXPECT_EQ(plan.spaces[0].workspace_bytes, 2 * 128);
  EXPECT_FALSE(plan.spaces[1].fits());
}

TEST(MemoryPlan, AnEmptyProgramTakesNothingAndEmptyTensorsAlmost) {
  EXPECT_TRUE(plan_memory(Program{}, {}).fits());
  Program program;
  program.values = {{"x", {.shape = {0}}, {Storage::Kind::input, 0, 0}}};
  program.inputs = {{"x", 0}};
  EXPECT_EQ(plan_memory(program, {}).spaces[0].peak_bytes(), 64);
}

TEST(MemoryPlan, HostArgumentsCountInDram) {
  Program program;
  program.values = {{"x", {.shape = {16}, .space = Space::host}, {Storage::Kind::input, 0, 0}}};
  program.inputs = {{"x", 0}};
  EXPECT_EQ(plan_memory(program, {}).spaces[0].inputs_bytes, 64);
}

TEST(MemoryPlan, SumsThatOverflowAreErrors) {
  Program program;
  program.dram_workspace_bytes = std::numeric_limits<std::int64_t>::max() / 2;
  program.l1_workspace_bytes = program.dram_workspace_bytes;
  const std::vector<Program> two = {program, program};
  EXPECT_THROW(plan_memory(two, {}), Error);
  program.dram_workspace_bytes = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(plan_memory(program, {}), Error);
}

}  // namespace
}  // namespace tilemesh
