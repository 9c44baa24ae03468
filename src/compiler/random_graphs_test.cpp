#include <gtest/gtest.h>

#include "compiler/interpret.hpp"
#include "compiler/testing.hpp"

namespace tilemesh {
namespace {

constexpr double kTolerance = 2e-4;

class RandomGraphs : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  std::uint32_t seed() const { return GetParam(); }
  Graph graph_ = testing::random_graph(seed(), 3 + static_cast<int>(seed() % 18));
  testing::Values inputs_ = testing::random_inputs(graph_, seed() + 1000);

  void expect_same(const std::vector<ConstantData>& got) {
    const std::vector<ConstantData> wanted = interpret(graph_, inputs_);
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(testing::difference(got[i], wanted[i], kTolerance), "")
          << "seed " << seed() << ", output " << i << "\n"
          << to_string(graph_);
    }
  }
};

TEST_P(RandomGraphs, MeanTheSameAfterAllPasses) {
  graph_.check();
  for (const Target* target : {&reference_target(), &testing::blocked_target()}) {
    Graph optimised = graph_;
    optimise(optimised, {*target, {1, 1}, true, {}});
    SCOPED_TRACE(to_string(optimised));
    expect_same(interpret(optimised, inputs_));
  }
}

TEST_P(RandomGraphs, RunInTheirPlannedMemory) {
  expect_same(testing::lower_and_execute(graph_, reference_target(), inputs_));
}

TEST_P(RandomGraphs, RunInBlockedLayouts) {
  expect_same(testing::lower_and_execute(graph_, testing::blocked_target(), inputs_));
}

TEST_P(RandomGraphs, RunWithChannelsLast) {
  expect_same(testing::lower_and_execute(graph_, testing::channels_last_target(), inputs_));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphs, ::testing::Range(1u, 401u));

}  // namespace
}  // namespace tilemesh
