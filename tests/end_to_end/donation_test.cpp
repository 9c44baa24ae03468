#include <gtest/gtest.h>

#include "programs.hpp"

namespace tilemesh {
namespace {

class Donation_ : public testing::Test {
 protected:
  Mesh mesh = Mesh::open();
  Executable step = programs::prepared(mesh, programs::accumulate({16}));
  Tensor x = to_layout(programs::host({16}), step.input("x"));
};

std::string message_of(const std::function<void()>& call, ErrorCode code) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST_F(Donation_, TheOutputHasTheSameStorage) {
  Tensor state = zeros(step.input("state"));
  const DeviceAddress address = state.buffer()->address();
  const std::vector<Tensor> out = submit(step, {x, donate(state)});
  EXPECT_EQ(out[1].buffer()->address(), address);
  EXPECT_EQ(out[1].values<float>()[15], 15.0F);
}

TEST_F(Donation_, EveryHandleIsInvalidAfterwardsAndSaysWhy) {
  Tensor state = zeros(step.input("state"));
  const Tensor other = state;
  run(step, {x, donate(state)});
  EXPECT_FALSE(other.is_allocated());
  const std::string text = message_of([&] { other.to_host(); }, ErrorCode::deallocated);
  EXPECT_NE(text.find("donated to program \"accumulate\""), std::string::npos) << text;
}

TEST_F(Donation_, StateMustBeDonated) {
  const Tensor state = zeros(step.input("state"));
  const std::string text = message_of(
      [&] {
        submit(step, {x, state});
      },
      ErrorCode::invalid_argument);
  EXPECT_NE(text.find("donate"), std::string::npos) << text;
  EXPECT_TRUE(state.is_allocated());
}

TEST_F(Donation_, StateOnTheHostIsRefusedNotCopied) {
  message_of([&] { submit(step, {x, donate(programs::host({16}))}); }, ErrorCode::invalid_argument);
}

TEST_F(Donation_, OneTensorCantBeDonatedAndUsed) {
  const Tensor state = zeros(step.input("state"));
  message_of([&] { submit(step, {state, donate(state)}); }, ErrorCode::invalid_argument);
  EXPECT_TRUE(state.is_allocated());
}

TEST_F(Donation_, ARefusedSubmitTakesNothing) {
  const Tensor state = zeros(step.input("state"));
  message_of(
      [&] {
        submit(step, {programs::host({15}), donate(state)});
      },
      ErrorCode::invalid_argument);
  EXPECT_TRUE(state.is_allocated());
  EXPECT_EQ(run(step, {x, donate(state)})[1].values<float>()[15], 15.0F);
}

TEST_F(Donation_, ADonatedActivationIsFreed) {
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

TEST_F(Donation_, AThousandStepsKeepTheStateInPlace) {
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
