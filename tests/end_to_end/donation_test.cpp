#include <gtest/gtest.h>

#include "programs.hpp"

namespace tilemesh {
namespace {

using programs::refused;

class Donated : public testing::Test {
 protected:
  Mesh mesh = Mesh::open();
  Executable step = programs::prepared(mesh, programs::accumulate({16}));
  Tensor x = to_layout(programs::host({16}), step.input("x"));
};

TEST_F(Donated, TheOutputHasTheSameStorage) {
  Tensor state = zeros(step.input("state"));
  const DeviceAddress address = state.buffer()->address();
  const std::vector<Tensor> out = submit(step, {x, donate(state)});
  EXPECT_EQ(out[1].buffer()->address(), address);
  EXPECT_EQ(out[1].values<float>()[15], 15.0F);
}

TEST_F(Donated, EveryHandleIsInvalidAfterwardsAndSaysWhy) {
  Tensor state = zeros(step.input("state"));
  const Tensor other = state;
  run(step, {x, donate(state)});
  EXPECT_FALSE(other.is_allocated());
  const std::string text = refused(ErrorCode::deallocated, [&] { other.to_host(); });
  EXPECT_NE(text.find("donated to program \"accumulate\""), std::string::npos) << text;
}

TEST_F(Donated, StateMustBeDonated) {
  const Tensor state = zeros(step.input("state"));
  const std::string text = refused(ErrorCode::invalid_argument, [&] { submit(step, {x, state}); });
  EXPECT_NE(text.find("donate"), std::string::npos) << text;
  EXPECT_TRUE(state.is_allocated());
}

TEST_F(Donated, StateOnTheHostIsRefusedNotCopied) {
  refused(ErrorCode::invalid_argument, [&] { submit(step, {x, donate(programs::host({16}))}); });
}

TEST_F(Donated, OneTensorCantBeDonatedAndUsed) {
  const Tensor state = zeros(step.input("state"));
  refused(ErrorCode::invalid_argument, [&] { submit(step, {state, donate(state)}); });
  EXPECT_TRUE(state.is_allocated());
}

TEST_F(Donated, ARefusedSubmitTakesNothing) {
  const Tensor state = zeros(step.input("state"));
  refused(ErrorCode::invalid_argument, [&] {
    submit(step, {programs::host({15}), donate(state)});
  });
  EXPECT_TRUE(state.is_allocated());
  EXPECT_EQ(run(step, {x, donate(state)})[1].values<float>()[15], 15.0F);
}

TEST_F(Donated, ADonatedActivationIsFreed) {
  const Executable add = programs::prepared(mesh, programs::add({16}));
  const auto before = memory_report(mesh).spaces[0].used_bytes;
  Tensor a = to_layout(programs::host({16}), add.input("a"));
  Tensor y = run(add, {donate(a), x})[0];
  EXPECT_FALSE(a.is_allocated());
  EXPECT_EQ(y.values<float>()[15], 30.0F);
  y.deallocate();
  mesh.queue(0).finish();
  EXPECT_EQ(memory_report(mesh).spaces[0].used_bytes, before);
}

TEST_F(Donated, AThousandStepsKeepTheStateInPlace) {
  Tensor state = zeros(step.input("state"));
  const auto used = memory_report(mesh).spaces[0].used_bytes;
  for (int i = 0; i < 1000; ++i) {
    state = std::move(submit(step, {x, donate(std::move(state))})[1]);
  }
  EXPECT_EQ(state.values<float>()[15], 15000.0F);
  mesh.queue(0).finish();
  EXPECT_EQ(memory_report(mesh).spaces[0].used_bytes, used);
}

}  // namespace
}  // namespace tilemesh
