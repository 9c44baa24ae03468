#include <gtest/gtest.h>

#include "programs.hpp"

namespace tilemesh {
namespace {

std::int64_t used(const Mesh& mesh) {
  return memory_report(mesh).spaces.at(0).used_bytes;
}

TEST(Submesh, AProgramForOneDeviceRunsOnAnyDeviceOfAMesh) {
  const Mesh mesh = Mesh::open({.shape = {1, 8}, .threads_per_device = 1});
  const std::vector<float> wanted =
      run(programs::prepared(Mesh::open(), programs::twice_relu({10})),
          {programs::host({10}, -4)})[0]
          .values<float>();
  for (int i = 0; i < 8; ++i) {
    const Mesh one = mesh.submesh(mesh.column(i));
    const std::int64_t others = used(mesh.submesh(mesh.column((i + 1) % 8)));
    const Executable relu = programs::prepared(one, programs::twice_relu({10}));
    const Tensor x = to_layout(programs::host({10}, -4), relu.input("x"));
    EXPECT_EQ(x.mesh(), one);
    EXPECT_EQ(run(relu, {x})[0].values<float>(), wanted);
    const Tensor y = submit(relu, {x})[0];
    EXPECT_EQ(y.mesh(), one);
    EXPECT_EQ(y.values<float>(), wanted);
    EXPECT_GT(used(one), 0);
    EXPECT_EQ(used(mesh.submesh(mesh.column((i + 1) % 8))), others) << "others hold nothing of it";
  }
}

TEST(Submesh, ProgramsOnHalvesAndOnTheWholeTakeTurns) {
  const Mesh mesh = Mesh::open({.shape = {2, 2}, .threads_per_device = 1});
  const Mesh lower = mesh.submesh(mesh.row(1));
  const Executable on_all = programs::prepared(mesh, programs::accumulate({4}));
  const Executable on_lower = programs::prepared(lower, programs::accumulate({4}));
  Tensor state_all = zeros(on_all.input("state"));
  Tensor state_lower = zeros(on_lower.input("state"));
  for (int round = 1; round <= 20; ++round) {
    auto all = submit(on_all, {programs::host({4}, 1), donate(std::move(state_all))});
    auto some = submit(on_lower, {programs::host({4}, 2), donate(std::move(state_lower))});
    state_all = std::move(all[1]);
    state_lower = std::move(some[1]);
    const auto n = static_cast<float>(round);
    EXPECT_EQ(all[0].values<float>()[1], 2 * n + 1);
    EXPECT_EQ(some[0].values<float>()[1], 3 * n + 1);
  }
}

TEST(Submesh, ConstantsOfTheWholeServeItsParts) {
  const Mesh mesh = Mesh::open({.shape = {1, 2}, .threads_per_device = 1});
  const auto shift = [&](const Mesh& where) {
    ProgramBuilder builder("shift");
    const auto input = builder.input("x", {.shape = {1000}});
    builder.output("y", builder.add(input, builder.constant(programs::iota(1000), {1000})));
    return programs::prepared(where, builder.build());
  };
  const Executable on_all = shift(mesh);
  const Mesh right = mesh.submesh(mesh.column(1));
  const std::int64_t before = used(right);
  const Executable on_right = shift(right);
  EXPECT_EQ(used(right), before) << "they were there already";
  const Tensor y = run(on_right, {programs::host({1000})})[0];
  EXPECT_EQ(y.values<float>()[999], 1998.0F);
}

TEST(Submesh, ATensorOfAnotherViewGoesFromDeviceToDeviceAndIsCounted) {
  const Mesh mesh = Mesh::open({.shape = {1, 2}, .threads_per_device = 1});
  const Mesh left = mesh.submesh(mesh.column(0));
  const Mesh right = mesh.submesh(mesh.column(1));
  const Executable relu = programs::prepared(right, programs::twice_relu({8}));
  const Executable on_left = programs::prepared(left, programs::twice_relu({8}));
  const Tensor x = to_layout(programs::host({8}), on_left.input("x"));
  x.wait();
  const Counters before = mesh.counters();
  EXPECT_EQ(run(relu, {x})[0].values<float>()[7], 14.0F);
  const Counters crossed = mesh.counters() - before;
  EXPECT_EQ(crossed.host_to_device_bytes, 0);
  EXPECT_EQ(crossed.device_to_host_bytes, 32) << "the result that was read";
  EXPECT_EQ(crossed.device_to_device_bytes, 32);
  EXPECT_EQ(crossed.conversions, 1);
  EXPECT_THROW(submit(relu, {x}, {.conversion = Conversion::forbid}), Error);
}

TEST(Submesh, WhatLiesRightForAnotherViewIsNoConversion) {
  const Mesh mesh = Mesh::open({.shape = {2, 2}, .threads_per_device = 1});
  const Mesh flat = mesh.reshape({4});
  const Executable relu = programs::prepared(flat, programs::twice_relu({6}));
  const Executable on_row =
      programs::prepared(mesh.submesh(mesh.row(1)), programs::twice_relu({6}));
  const Tensor x = distribute(programs::host({6}, 1), mesh, {});
  const Counters before = mesh.counters();
  for (const Executable& executable : {relu, on_row}) {
    const Tensor y = submit(executable, {x}, {.conversion = Conversion::forbid})[0];
    EXPECT_EQ(y.values<float>()[5], 12.0F);
  }
  EXPECT_EQ((mesh.counters() - before).conversions, 0);
}

TEST(Submesh, ReshapingLeavesLiveTensorsAsTheyAre) {
  const Mesh mesh = Mesh::open({.shape = {2, 2}, .threads_per_device = 1});
  const Executable relu = programs::prepared(mesh, programs::twice_relu({6}));
  const Tensor x = to_layout(programs::host({6}, 1), relu.input("x"));
  const Mesh flat = mesh.reshape({4});
  const Mesh turned = mesh.permute({1, 0});
  const Executable on_flat = programs::prepared(flat, programs::twice_relu({6}));
  EXPECT_EQ(x.mesh(), mesh);
  EXPECT_EQ(x.values<float>(), programs::iota(6, 1));
  EXPECT_EQ(run(relu, {x})[0].values<float>()[5], 12.0F);
  EXPECT_EQ(run(on_flat, {x})[0].values<float>()[5], 12.0F);
  EXPECT_EQ(programs::prepared(turned, programs::twice_relu({6})).mesh(), turned);
}

TEST(Submesh, TheWrongShapeOfViewIsAMismatch) {
  const Mesh mesh = Mesh::open({.shape = {1, 2}, .threads_per_device = 1});
  std::vector<Graph> graphs;
  graphs.push_back(programs::twice_relu({6}));
  const Binary binary = compile(std::move(graphs), {.mesh = {1, 1}});
  EXPECT_NO_THROW((void)prepare(mesh.submesh(mesh.column(1)), binary.program()));
  try {
    (void)prepare(mesh, binary.program());
    FAIL() << "a program for one device was prepared for two";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
  }
}

TEST(Submesh, TensorsAndExecutablesOutliveEveryHandleOfTheMesh) {
  Executable relu = [] {
    const Mesh mesh = Mesh::open({.shape = {1, 2}, .threads_per_device = 1});
    return programs::prepared(mesh.submesh(mesh.column(1)), programs::twice_relu({4}));
  }();
  const Tensor y = submit(relu, {programs::host({4})})[0];
  relu = programs::prepared(Mesh::open(), programs::twice_relu({4}));
  EXPECT_EQ(y.values<float>()[3], 6.0F);
}

}  // namespace
}  // namespace tilemesh
