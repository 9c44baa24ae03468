#include <map>
#include <random>

#include <gtest/gtest.h>

#include "compiler/interpret.hpp"
#include "compiler/testing.hpp"

namespace tilemesh {
namespace {

constexpr double kTolerance = 2e-4;

/// Some values of a graph, each by a name that it alone has, cut along some dim and axis.
std::vector<ShardRule> random_rules(const Graph& graph, const MeshShape& mesh,
                                    std::mt19937& random) {
  const auto below = [&](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
  };
  std::map<std::string, std::vector<int>> ranks;
  for (const GraphValue& value : graph.values)
    ranks[value.name].push_back(value.type.shape.rank());
  std::vector<std::pair<std::string, int>> values;
  for (const auto& [name, all] : ranks) {
    if (all.size() == 1 && all[0] > 0) values.emplace_back(name, all[0]);
  }
  std::map<std::pair<std::string, int>, int> cuts;
  for (std::size_t i = below(4) + 1; i > 0 && !values.empty(); --i) {
    const auto& [name, rank] = values[below(values.size())];
    const auto axis = static_cast<int>(below(static_cast<std::size_t>(mesh.axes())));
    cuts[{name, axis}] = static_cast<int>(below(static_cast<std::size_t>(rank)));
  }
  std::vector<ShardRule> rules;
  for (const auto& [value, dim] : cuts)
    rules.push_back({value.first, dim, value.second});
  return rules;
}

class RandomPartition : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(RandomPartition, MeansTheSameOnAMesh) {
  static const std::vector<MeshShape> kMeshes{{1, 2}, {2, 2}, {1, 3}, {2, 4}};
  const std::uint32_t seed = GetParam();
  const Graph graph = testing::random_graph(seed, 3 + static_cast<int>(seed % 18));
  const MeshShape& mesh = kMeshes[seed % kMeshes.size()];
  const testing::Values inputs = testing::random_inputs(graph, seed + 1000);
  std::mt19937 random(seed);
  ShardWishes wishes;
  std::string said;
  for (const ShardRule& rule : random_rules(graph, mesh, random)) {
    Graph simple = graph;
    const auto folded = [&] {
      try {
        simplify(simple, {reference_target(), {1, 1}, true, {}});
        partition_graph(simple, mesh, {{rule}, {}});
        return false;
      } catch (const Error& error) {
        if (error.code() != ErrorCode::unsupported) throw;
        return true;
      }
    };
    if (folded()) continue;
    wishes.rules.push_back(rule);
    said += " " + rule.name + "=" + std::to_string(rule.dim) + "@" + std::to_string(rule.axis);
  }
  const std::vector<ConstantData> wanted = interpret(graph, inputs);
  for (const Target* target : {&reference_target(), &testing::blocked_target()}) {
    const auto got = testing::lower_and_execute(graph, *target, inputs, mesh, wishes);
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(testing::difference(got[i], wanted[i], kTolerance), "")
          << "seed " << seed << " on " << mesh.to_string() << said << ", output " << i << "\n"
          << to_string(graph);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPartition, ::testing::Range(1u, 401u));

}  // namespace
}  // namespace tilemesh
