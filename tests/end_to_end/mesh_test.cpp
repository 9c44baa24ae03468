#include <gtest/gtest.h>

#include "programs.hpp"

namespace tilemesh {
namespace {

Graph small_net(std::int64_t batch) {
  ProgramBuilder builder("net");
  const auto x = builder.input("x", {.shape = {batch, 3, 9, 7}});
  const auto weights = builder.constant(programs::iota(5 * 3 * 3 * 3, -60), {5, 3, 3, 3});
  const auto bias = builder.constant(programs::iota(5), {5});
  const auto convolved = builder.conv(x, weights, bias,
                                      {{"strides", std::vector<std::int64_t>{1, 1}},
                                       {"pads", std::vector<std::int64_t>{1, 1, 1, 1}},
                                       {"dilations", std::vector<std::int64_t>{1, 1}},
                                       {"group", std::int64_t{1}}});
  const auto flat = builder.reshape(builder.sigmoid(convolved), {batch, 5 * 9 * 7});
  builder.output("y", builder.softmax(flat, 1));
  return builder.build();
}

Tensor picture(std::int64_t batch) {
  std::vector<float> values(static_cast<std::size_t>(batch * 3 * 9 * 7));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(static_cast<int>(i * 7919 % 101) - 50) / 5000.0F;
  }
  return Tensor::adopt(std::move(values), {.shape = {batch, 3, 9, 7}});
}

TEST(Meshes, ReplicatedRunsGiveTheSameBitsOnAnyMesh) {
  const auto result = [](const MeshShape& shape) {
    const Mesh mesh = Mesh::open({.shape = shape, .threads_per_device = 1});
    return run(programs::prepared(mesh, small_net(2)), {picture(2)})[0].values<float>();
  };
  const std::vector<float> one = result({1, 1});
  EXPECT_EQ(one, result({1, 2}));
  EXPECT_EQ(one, result({1, 8}));
  EXPECT_EQ(one, result({2, 3}));
}

TEST(Meshes, ABatchCutOverDevicesGivesTheSameValues) {
  for (const std::int64_t batch : {8, 5, 1}) {
    const Mesh whole = Mesh::open();
    const auto wanted = run(programs::prepared(whole, small_net(batch)), {picture(batch)})[0];
    for (const auto& shape : {MeshShape{1, 2}, MeshShape{2, 2}, MeshShape{1, 8}}) {
      const Mesh mesh = Mesh::open({.shape = shape});
      const Executable cut = programs::prepared(mesh, small_net(batch), {.shards = {{"x", 0}}});
      EXPECT_FALSE(cut.input("x").spec.is_replicated());
      const Tensor y = run(cut, {picture(batch)})[0];
      EXPECT_FALSE(y.spec().is_replicated());
      const auto values = y.values<float>();
      const auto reference = wanted.values<float>();
      ASSERT_EQ(values.size(), reference.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_NEAR(values[i], reference[i], 1e-6F);
      }
    }
  }
}

TEST(Meshes, WhatAnOpNeedsWholeIsGatheredAndSaidSo) {
  ProgramBuilder builder("mean");
  const auto x = builder.input("x", {.shape = {8, 3}});
  builder.output("y", builder.softmax(x, 0));
  const Binary binary = compile({builder.build()}, {.mesh = {1, 2}, .shards = {{"x", 0}}});
  const ProgramOp& gather = binary.program()->ops.at(0);
  EXPECT_EQ(gather.op, "reshard");
  EXPECT_NE(gather.name.find("all_gather"), std::string::npos) << gather.name;
  EXPECT_NE(gather.message.find("softmax"), std::string::npos) << gather.message;
}

TEST(Meshes, CollectivesInARowWithEmptyShards) {
  // The first leaves padding to fill on half of the devices alone.
  ProgramBuilder builder("two");
  const auto y = builder.input("y", {.shape = {1, 4}});
  const auto x = builder.input("x", {.shape = {6, 4}});
  builder.output("least",
                 builder.op("reduce_min", {y}, {{"axes", std::vector<std::int64_t>{1}}})[0]);
  builder.output("whole", builder.softmax(x, 0));
  const Mesh mesh = Mesh::open({.shape = {2, 2}});
  const Binary binary = compile(
      {builder.build()}, {.mesh = {2, 2}, .shards = {{"y", 0, 0}, {"y", 1, 1}, {"x", 0, 1}}});
  const auto outputs =
      run(prepare(mesh, binary.program()), {programs::host({1, 4}), programs::host({6, 4})});
  EXPECT_EQ(outputs[0].values<float>(), std::vector<float>{0});
  EXPECT_NEAR(outputs[1].values<float>()[23], 0.98168F, 1e-4F);
}

TEST(Meshes, AProgramMayLeavePartsForACollective) {
  const Mesh mesh = Mesh::open({.shape = {1, 2}});
  ProgramBuilder builder("columns");
  const auto x = builder.input("x", {.shape = {2, 4}, .placements = {replicate(), shard(1)}});
  const auto w = builder.input("w", {.shape = {4, 3}}, InputKind::parameter);
  builder.output("y", builder.matmul(x, w), {.placements = {replicate(), partial(ReduceOp::sum)}});
  const Executable columns = prepare(mesh, compile({builder.build()}, {.mesh = {1, 2}}).program());
  const Tensor part = submit(columns, {programs::host({2, 4}), programs::host({4, 3})})[0];
  EXPECT_EQ(part.spec().placement(1), partial(ReduceOp::sum));
  const std::vector<float> wanted{42, 48, 54, 114, 136, 158};
  EXPECT_EQ(all_reduce(part, {.axis = 1}).values<float>(), wanted);
  EXPECT_EQ(part.values<float>(), wanted);
}

TEST(Meshes, TwoMeshesInOneProcess) {
  const Mesh a = Mesh::open();
  const Mesh b = Mesh::open({.shape = {1, 2}});
  const Executable on_a = programs::prepared(a, programs::twice_relu({10}));
  const Executable on_b = programs::prepared(b, programs::twice_relu({10}));
  const Tensor y = submit(on_a, {programs::host({10})})[0];
  EXPECT_EQ(run(on_b, {y})[0].values<float>()[9], 36.0F);
}

TEST(Meshes, HandlesOutliveTheMesh) {
  Tensor y;
  {
    const Mesh mesh = Mesh::open({.shape = {1, 2}});
    y = submit(programs::prepared(mesh, programs::twice_relu({10})), {programs::host({10})})[0];
  }
  EXPECT_EQ(y.values<float>()[9], 18.0F);
}

}  // namespace
}  // namespace tilemesh
