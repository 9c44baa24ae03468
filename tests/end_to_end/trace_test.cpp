#include <gtest/gtest.h>

#include "programs.hpp"

namespace tilemesh {
namespace {

class Traced : public testing::TestWithParam<MeshShape> {
 protected:
  static constexpr std::int64_t kCount = 4000;
  Mesh mesh = Mesh::open({.shape = GetParam()});
  Executable first = programs::prepared(mesh, programs::twice_relu({kCount}, "first"));
  Executable second = programs::prepared(mesh, programs::twice_relu({kCount}, "second"));
  Tensor slot = to_layout(programs::host({kCount}), first.input("x"));
};
INSTANTIATE_TEST_SUITE_P(Meshes, Traced,
                         testing::Values(MeshShape{1, 1}, MeshShape{1, 2}, MeshShape{1, 8}),
                         [](const auto& param) { return param.param.to_string(); });

TEST_P(Traced, StitchedProgramsReplayOnRewrittenInputs) {
  slot.wait();
  std::vector<Tensor> outputs;
  const MeshTrace trace = capture(mesh, [&] {
    const std::vector<Tensor> between = submit(first, {slot});
    outputs = submit(second, {between[0]});
  });
  for (int round = 0; round < 20; ++round) {
    copy(programs::host({kCount}, static_cast<float>(round)), slot);
    trace.replay().wait();
    const auto values = outputs[0].values<float>();
    ASSERT_EQ(values[0], 4.0F * static_cast<float>(round));
    ASSERT_EQ(values.back(), 4.0F * static_cast<float>(round + kCount - 1));
  }
}

TEST_P(Traced, ReshardsAndCollectivesReplayToo) {
  Placements cut;
  cut.resize(2);
  cut[1] = shard(0);
  Placements parts;
  parts.resize(2);
  parts[1] = partial(ReduceOp::sum);
  const Tensor x = distribute(programs::host({kCount}), mesh, cut);
  const std::vector<Tensor> copies(static_cast<std::size_t>(mesh.device_count()),
                                   programs::host({kCount}, 1));
  const Tensor addends = from_shards(copies, mesh, parts);
  x.wait();
  addends.wait();
  Tensor whole;
  Tensor sum;
  const MeshTrace trace = capture(mesh, [&] {
    whole = reshard(x, {});
    sum = all_reduce(addends);
  });
  for (int round = 0; round < 20; ++round) {
    copy(programs::host({kCount}, static_cast<float>(round)), x);
    trace.replay().wait();
    ASSERT_EQ(whole.shard({0, 0}).values<float>(),
              programs::iota(kCount, static_cast<float>(round)));
    ASSERT_EQ(sum.values<float>()[1], 2.0F * static_cast<float>(mesh.device_count()));
  }
}

TEST_P(Traced, WhatBlocksIsRefusedAndTheMeshStaysUsable) {
  slot.wait();
  for (const std::function<void()>& call : std::vector<std::function<void()>>{
           [&] { run(first, {slot}); }, [&] { (void)submit(first, {slot})[0].to_host(); },
           [&] {
             submit(first, {slot})[0].wait();
           }}) {
    const std::string text =
        programs::refused(ErrorCode::invalid_argument, [&] { (void)capture(mesh, call); });
    EXPECT_NE(text.find("can't be captured"), std::string::npos) << text;
    EXPECT_EQ(run(first, {slot})[0].values<float>()[3], 6.0F);
  }
}

}  // namespace
}  // namespace tilemesh
