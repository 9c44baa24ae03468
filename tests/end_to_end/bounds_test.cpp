// Programs at the edge of what there is: nothing at all, and more than any device has.

#include <gtest/gtest.h>

#include "programs.hpp"

namespace tilemesh {
namespace {

using Ints = std::vector<std::int64_t>;

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(Bounds, ABatchOfNothingRuns) {
  ProgramBuilder builder("nothing");
  const auto x = builder.input("x", {.shape = {0, 4}});
  const auto w = builder.constant(programs::iota(32), {4, 8});
  const auto y = builder.relu(builder.softmax(builder.relu(builder.matmul(x, w)), 1));
  builder.output("y", builder.relu(builder.transpose(builder.add(y, y), {1, 0})));
  const auto sum =
      builder.op("reduce_sum", {y}, {{"axes", Ints{0}}, {"keepdims", std::int64_t{0}}});
  builder.output("sum", sum[0]);
  const Mesh mesh = Mesh::open();
  const Executable executable = programs::prepared(mesh, builder.build());
  const std::vector<Tensor> results = run(executable, {programs::host({0, 4})});
  EXPECT_EQ(results[0].spec().shape, (Shape{8, 0}));
  EXPECT_EQ(results[1].to_host().values<float>()[0], 0.0F);
}

TEST(Bounds, AnEmptyConvolutionRuns) {
  ProgramBuilder builder("nothing");
  const auto x = builder.input("x", {.shape = {0, 3, 8, 8}});
  const auto w = builder.constant(std::vector<float>(4 * 27), {4, 3, 3, 3});
  const auto c = builder.op("conv", {x, w})[0];
  const auto p = builder.op("max_pool", {c}, {{"kernel", Ints{2, 2}}})[0];
  builder.output("y", builder.relu(p));
  const Executable executable = programs::prepared(Mesh::open(), builder.build());
  EXPECT_EQ(run(executable, {programs::host({0, 3, 8, 8})})[0].spec().shape, (Shape{0, 4, 5, 5}));
}

TEST(Bounds, WhatNoDeviceHoldsIsRefusedWithBothFigures) {
  ProgramBuilder builder("huge");
  const auto x = builder.input("x", {.shape = {1 << 10, 1 << 10}});
  builder.output("y", builder.op("tile", {x}, {{"repeats", Ints{4, 4}}})[0]);
  const Binary binary = compile({builder.build()}, {});
  const Mesh small = Mesh::open({.dram_bytes = 32 << 20});
  const std::string text =
      programs::refused(ErrorCode::out_of_memory, [&] { prepare(small, binary.program()); });
  EXPECT_HAS(text, "wants 67108864 bytes a device, dram has 33554432");
}

TEST(Bounds, AShapeBeyondAnyMachineIsRefusedWhenItIsMade) {
  ProgramBuilder builder("huge");
  const auto x = builder.input("x", {.shape = {1, 4, 4, 4}});
  const std::string text = programs::refused(ErrorCode::invalid_argument, [&] {
    builder.op("resize", {x}, {{"sizes", Ints{1, 4, std::int64_t{1} << 48, 6}}});
  });
  EXPECT_HAS(text, "has more than 1099511627776 elements");
}

TEST(Bounds, CompilingCostsNothingPerElementOfAShape) {
  ProgramBuilder builder("huge");
  const auto x = builder.input("x", {.shape = {1, (std::int64_t{1} << 32) - 1}});
  builder.output("y", builder.op("linear", {x}, {{"alpha", 3.0}})[0]);
  EXPECT_EQ(compile({builder.build()}, {}).program()->ops.size(), 1U);
}

TEST(Bounds, APlanOfAPreparedProgramCountsScratch) {
  ProgramBuilder builder("conv");
  const auto x = builder.input("x", {.shape = {2, 3, 33, 35}});
  const auto w = builder.constant(programs::iota(5 * 27), {5, 3, 3, 3});
  builder.output("y", builder.op("conv", {x, w}, {{"dilations", Ints{2, 2}}})[0]);
  const Mesh mesh = Mesh::open();
  const Executable executable = programs::prepared(mesh, builder.build());
  const MemoryPlan plan = plan_memory(executable);
  const DeviceInfo& device = mesh.device(0).info();
  const SpacePlan without =
      plan_memory(executable.program(), {device.dram_bytes, device.l1_bytes}).spaces[0];
  EXPECT_EQ(plan.spaces[0].peak_bytes(), without.peak_bytes() + plan.spaces[0].scratch_bytes);
  EXPECT_EQ(without.scratch_bytes, 0);
  EXPECT_TRUE(plan.fits());
}

}  // namespace
}  // namespace tilemesh
