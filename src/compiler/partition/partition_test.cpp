#include <gtest/gtest.h>

#include "compiler/interpret.hpp"
#include "compiler/placed_graph.hpp"
#include "compiler/testing.hpp"

namespace tilemesh {
namespace {

using Value = ProgramBuilder::Value;

class Partition : public ::testing::Test {
 protected:
  Value input(const std::string& name, const Shape& shape, std::optional<int> cut = {}) {
    TensorSpec spec;
    spec.shape = shape;
    if (cut) spec.placements = {replicate(), shard(*cut)};
    return builder_.input(name, spec);
  }

  Value constant(const Shape& shape) {
    std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = 0.1f * static_cast<float>(i % 7);
    return builder_.constant(values, shape);
  }

  /// Compiles for a mesh, runs every device, compares with the whole graph on one.
  void expect_same_on(const MeshShape& mesh) {
    const testing::Values inputs = testing::random_inputs(graph_, 5);
    const auto wanted = interpret(graph_, inputs);
    for (const Target* target : {&reference_target(), &testing::blocked_target()}) {
      const auto got = testing::lower_and_execute(graph_, *target, inputs, mesh);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_EQ(testing::difference(got[i], wanted[i], 1e-5), "");
      }
    }
  }

  ProgramBuilder builder_{"cut"};
  Graph graph_;
};

TEST_F(Partition, ANetworkIsCutAlongItsBatch) {
  const Value x = input("x", {5, 3, 4, 4}, 0);
  Value y = builder_.conv(x, constant({6, 3, 3, 3}), constant({6}), {});
  y = builder_.relu(y);
  y = builder_.add(y, constant({6, 1, 1}));
  y = builder_.op("global_average_pool", {y})[0];
  y = builder_.reshape(y, {5, 6});
  y = builder_.softmax(builder_.matmul(y, constant({6, 4})), 1);
  builder_.output("out", y);
  graph_ = builder_.build();
  const PlacedGraph placed = partition_graph(graph_, {1, 2});
  EXPECT_EQ(placed.graph.outputs[0].placements, (Placements{replicate(), shard(0)}));
  expect_same_on({1, 2});
  expect_same_on({1, 3});
  expect_same_on({1, 8});
}

TEST_F(Partition, ReplicatedProgramsRunOnEveryDevice) {
  const Value x = input("x", {5, 3});
  builder_.output("out", builder_.softmax(x, 0));
  graph_ = builder_.build();
  expect_same_on({2, 2});
}

TEST_F(Partition, CutsFollowTransposesAndWeights) {
  const Value x = input("x", {4, 6}, 1);
  const Value y = builder_.transpose(x, {1, 0});
  builder_.output("out", builder_.matmul(y, constant({4, 3})));
  graph_ = builder_.build();
  EXPECT_EQ(partition_graph(graph_, {1, 2}).graph.outputs[0].placements,
            (Placements{replicate(), shard(0)}));
  expect_same_on({1, 2});
}

}  // namespace
}  // namespace tilemesh
