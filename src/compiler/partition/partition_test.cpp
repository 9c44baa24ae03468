#include <gtest/gtest.h>

#include "tilemesh/types/redistribution.hpp"

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

/// What a partitioned graph does, in short.
struct Partitioned {
  explicit Partitioned(Graph graph, const MeshShape& mesh, const ShardWishes& wishes = {})
      : placed(partition_graph(std::move(graph), mesh, wishes)) {}

  /// "all_reduce all_gather", in order.
  std::string movements() const {
    std::string names;
    for (const GraphNode& node : placed.graph.body.nodes) {
      if (node.def == nullptr || node.def->name != "reshard") continue;
      names += (names.empty() ? "" : " ") + node.name.substr(0, node.name.find(' '));
    }
    return names;
  }

  /// Of the last value with this name.
  std::string placement(const std::string& name) const {
    for (std::size_t i = placed.graph.values.size(); i-- > 0;) {
      const auto id = static_cast<GraphValueId>(i);
      if (placed.graph[id].name == name) return placements_to_string(placed.spec(id));
    }
    return "nothing has this name";
  }

  PlacedGraph placed;
};

class AutoTensor : public Partition {
 protected:
  Value weights(const std::string& name, const Shape& shape) {
    const Value value = constant(shape);
    names_.emplace_back(value.id, name);
    return value;
  }

  Value dense(Value x, const std::string& name, std::int64_t in, std::int64_t out) {
    return builder_.add(builder_.matmul(x, weights(name, {in, out})),
                        weights(name + ".bias", {out}));
  }

  Graph build(Value output) {
    builder_.output("out", output);
    Graph graph = builder_.build();
    for (const auto& [id, name] : names_)
      graph[id].name = name;
    return graph;
  }

  Value attention(Value x) {
    const auto heads = [&](Value value) {
      return builder_.transpose(builder_.reshape(value, {2, 5, 4, 8}), {0, 2, 1, 3});
    };
    const Value q = heads(dense(x, "q", 32, 32));
    const Value k = heads(dense(x, "k", 32, 32));
    const Value v = heads(dense(x, "v", 32, 32));
    const Value scores = builder_.matmul(q, builder_.transpose(k, {0, 1, 3, 2}));
    const Value mixed = builder_.matmul(builder_.softmax(scores, 3), v);
    const Value merged = builder_.reshape(builder_.transpose(mixed, {0, 2, 1, 3}), {2, 5, 32});
    return dense(merged, "o", 32, 32);
  }

  std::vector<std::pair<GraphValueId, std::string>> names_;
  ShardWishes tensor_{{}, {AutoShard::tensor}};
};

TEST_F(AutoTensor, AnMlpIsCutInColumnsThenRows) {
  const Value h = builder_.op("gelu", {dense(input("x", {8, 16}), "up", 16, 32)})[0];
  const Partitioned cut(build(dense(h, "down", 32, 16)), {1, 4}, tensor_);
  EXPECT_EQ(cut.movements(), "all_reduce");
  EXPECT_EQ(cut.placement("up"), "(replicate, shard 1)");
  EXPECT_EQ(cut.placement("up.bias"), "(replicate, shard 0)");
  EXPECT_EQ(cut.placement("down"), "(replicate, shard 0)");
  EXPECT_EQ(cut.placement("down.bias"), "(replicate, replicate)");
}

TEST_F(AutoTensor, AttentionIsCutByHeads) {
  const Partitioned cut(build(attention(input("x", {2, 5, 32}))), {2, 2}, tensor_);
  EXPECT_EQ(cut.movements(), "all_reduce");
  for (const char* name : {"q", "k", "v"})
    EXPECT_EQ(cut.placement(name), "(shard 1, shard 1)");
  EXPECT_EQ(cut.placement("o"), "(shard 0, shard 0)");
}

TEST_F(AutoTensor, HeadsThatDontDivideStayWhole) {
  const Value attended = attention(input("x", {2, 5, 32}));
  const Value up = builder_.op("gelu", {dense(attended, "up", 32, 64)})[0];
  const Partitioned cut(build(dense(up, "down", 64, 32)), {1, 8}, tensor_);
  EXPECT_EQ(cut.movements(), "all_reduce");
  EXPECT_EQ(cut.placement("q"), "(replicate, replicate)");
  EXPECT_EQ(cut.placement("o"), "(replicate, shard 1)") << "its columns go into sums too";
}

TEST_F(AutoTensor, NothingToCutIsRefusedUnlessSomethingIsCutByHand) {
  const Value x = input("x", {2, 5, 32});
  const Graph graph = build(attention(x));
  try {
    const Partitioned cut(graph, {1, 8}, tensor_);
    FAIL() << "it was cut: " << cut.movements();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    for (const char* part : {"8 parts", "mesh 1x8", "--shard", "--auto data"})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW(Partitioned(graph, {1, 8}, {{{.name = "q", .dim = 1}}, {AutoShard::tensor}}));
}

TEST_F(AutoTensor, DataAndTensorTakeAnAxisEach) {
  const Graph graph = build(attention(input("x", {2, 5, 32})));
  const Partitioned cut(graph, {2, 2}, {{}, {AutoShard::data, AutoShard::tensor}});
  EXPECT_EQ(cut.movements(), "all_reduce");
  EXPECT_EQ(cut.placement("x"), "(shard 0, replicate)");
  EXPECT_EQ(cut.placement("q"), "(replicate, shard 1)");
  EXPECT_THROW(Partitioned(graph, {1, 4}, {{}, {AutoShard::data, AutoShard::tensor}}), Error);
}

TEST_F(Partition, APartStaysOneWhileThatIsCheaper) {
  // Both sums are added before anything is reduced, and reduced when they are wanted.
  const Value x = input("x", {4, 6}, 1);
  const Value a = builder_.matmul(x, constant({6, 8}));
  const Value b = builder_.matmul(x, constant({6, 8}));
  const Value sum = builder_.transpose(builder_.reshape(builder_.add(a, b), {4, 2, 4}), {1, 0, 2});
  builder_.output("out", builder_.op("tanh", {sum})[0]);
  graph_ = builder_.build();
  EXPECT_EQ(Partitioned(graph_, {1, 2}).movements(), "all_reduce");
  expect_same_on({1, 2});
  expect_same_on({1, 8});
}

TEST_F(Partition, PartsGoThroughAProductOfTheirOwn) {
  const Value x = input("x", {4, 6}, 1);
  const Value y = builder_.matmul(x, input("w", {6, 8}, 0));
  builder_.output("out", builder_.mul(y, input("c", {4, 8})));
  graph_ = builder_.build();
  EXPECT_EQ(testing::op_names(partition_graph(graph_, {1, 2}).graph), "matmul mul reshard");
  expect_same_on({1, 2});
}

TEST_F(Partition, MeansOfIntegersArentPutTogether) {
  TensorSpec spec;
  spec.shape = {8, 3};
  spec.dtype = DType::i64;
  spec.placements = {replicate(), shard(0)};
  const Value x = builder_.input("x", spec);
  builder_.output("out",
                  builder_.op("reduce_mean", {x}, {{"axes", std::vector<std::int64_t>{0}}})[0]);
  graph_ = builder_.build();
  expect_same_on({1, 2});
}

TEST_F(Partition, TwoAxesNeverClaimOneDimByThemselves) {
  const Value x = input("x", {4, 4});
  const Value y = input("y", {4, 4});
  builder_.output("out", builder_.add(x, y));
  const Partitioned cut(builder_.build(), {2, 2}, {{{"x", 0, 0}, {"y", 0, 1}}, {}});
  EXPECT_EQ(cut.placed.graph.inputs[0].placements, (Placements{shard(0), replicate()}));
  EXPECT_EQ(cut.placed.graph.inputs[1].placements, (Placements{replicate(), shard(0)}));
  const std::string out = placements_to_string(cut.placed.spec(cut.placed.graph.outputs[0].value));
  EXPECT_TRUE(out == "(shard 0, replicate)" || out == "(replicate, shard 0)") << out;
}

TEST_F(Partition, FollowsSqueezesReshapesPermutationsAndSlices) {
  Value v = input("x", {6, 1, 4, 8}, 0);
  v = builder_.reshape(v, {6, 4, 8});
  v = builder_.transpose(v, {1, 0, 2});
  v = builder_.reshape(v, {4, 6, 2, 4});
  v = builder_.op("slice", {v},
                  {{"starts", std::vector<std::int64_t>{1}},
                   {"ends", std::vector<std::int64_t>{3}},
                   {"axes", std::vector<std::int64_t>{0}},
                   {"steps", std::vector<std::int64_t>{1}}})[0];
  builder_.output("out", v);
  graph_ = builder_.build();
  const Partitioned cut(graph_, {1, 2});
  EXPECT_EQ(cut.movements(), "");
  EXPECT_EQ(cut.placed.graph.outputs[0].placements, (Placements{replicate(), shard(1)}));
  expect_same_on({1, 2});
}

TEST_F(Partition, WhatIsSaidOfAValueHoldsForIt) {
  const Value x = input("x", {4, 6});
  const Value middle = builder_.relu(x);
  builder_.output("out", builder_.softmax(middle, 1));
  Graph graph = builder_.build();
  graph[middle.id].name = "middle";
  const Partitioned cut(graph, {1, 2}, {{{"re:mid.*", 1, 1}}, {}});
  EXPECT_EQ(cut.placement("middle"), "(replicate, replicate)") << "what softmax reads";
  EXPECT_EQ(cut.placement("x"), "(replicate, shard 1)") << "the wish went backwards";
  EXPECT_NE(cut.movements().find("all_gather"), std::string::npos) << cut.movements();
  const GraphValue& first = cut.placed.graph[cut.placed.graph.body.nodes[0].outputs[0]];
  EXPECT_NE(first.reason.find("--shard re:mid.*=1@1"), std::string::npos) << first.reason;
}

TEST_F(Partition, WhatIsSaidOfABranchsResultHolds) {
  const Value x = input("x", {4, 6});
  const Value condition = builder_.input("condition", {.shape = {}, .dtype = DType::boolean});
  builder_.output("same", builder_.op("not", {condition})[0]);
  graph_ = builder_.build();
  GraphNode branch;
  branch.kind = GraphNode::Kind::branch;
  branch.name = "pick";
  branch.inputs = {condition.id};
  branch.blocks = {std::make_shared<GraphBlock>(), std::make_shared<GraphBlock>()};
  GraphNode sums;  // along the dim that is to be cut, so it has to be done whole
  sums.def = &get_op("cum_sum");
  sums.name = "sums";
  sums.inputs = {x.id};
  sums.attributes = {{"axis", std::int64_t{1}}};
  branch.blocks[0]->results = graph_.append(*branch.blocks[0], sums);
  branch.blocks[1]->results = {x.id};
  const GraphValueId picked = graph_.append(graph_.body, branch)[0];
  graph_[picked].name = "picked";
  GraphOutput& out = graph_.outputs.emplace_back();
  out.name = "out";
  out.value = picked;

  const ShardWishes said{{{"picked", 1, 1}}, {}};
  const Partitioned cut(graph_, {1, 2}, said);
  cut.placed.graph.check();
  EXPECT_EQ(cut.placed.graph.outputs[1].placements, (Placements{replicate(), shard(1)}));
  for (const std::uint32_t seed : {1U, 2U, 3U, 4U}) {
    const testing::Values inputs = testing::random_inputs(graph_, seed);
    const auto wanted = interpret(graph_, inputs);
    const auto got = testing::lower_and_execute(graph_, reference_target(), inputs, {1, 2}, said);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_EQ(testing::difference(got[i], wanted[i], 1e-5), "") << "seed " << seed;
  }
}

TEST_F(Partition, WhatIsSaidOfEveryOutputHolds) {
  const Value x = input("x", {4, 6});
  const auto parts = builder_.op(
      "split", {x}, {{"axis", std::int64_t{1}}, {"sizes", std::vector<std::int64_t>{2, 4}}}, 2);
  builder_.output("left", builder_.relu(parts[0]));
  builder_.output("right", builder_.relu(parts[1]));
  graph_ = builder_.build();
  graph_[parts[0].id].name = "a";
  graph_[parts[1].id].name = "b";
  const ShardWishes said{{{"a", 1, 1}, {"b", 1, 1}}, {}};
  const Partitioned cut(graph_, {1, 2}, said);
  cut.placed.graph.check();
  EXPECT_EQ(cut.movements(), "slice slice");
  for (const GraphOutput& output : cut.placed.graph.outputs)
    EXPECT_EQ(output.placements, (Placements{replicate(), shard(1)})) << output.name;
  const testing::Values inputs = testing::random_inputs(graph_, 5);
  const auto wanted = interpret(graph_, inputs);
  const auto got = testing::lower_and_execute(graph_, reference_target(), inputs, {1, 2}, said);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_EQ(testing::difference(got[i], wanted[i], 1e-5), "");
}

TEST_F(Partition, AProgramMayAskForCollectives) {
  const Value x = input("x", {4, 6}, 1);
  const Value sum = builder_.matmul(x, constant({6, 8}));
  const Value scattered = builder_.reshard(sum, {replicate(), shard(0)});
  const Value whole =
      builder_.reshard(builder_.op("tanh", {scattered})[0], {replicate(), replicate()});
  builder_.output("out", builder_.reshard(whole, {replicate(), shard(1)}));
  graph_ = builder_.build();
  EXPECT_EQ(Partitioned(graph_, {1, 2}).movements(), "reduce_scatter all_gather slice");
  EXPECT_EQ(Partitioned(graph_, {1, 1}).movements(), "");
  expect_same_on({1, 2});
  expect_same_on({1, 3});
}

TEST_F(Partition, PartsMayGoInAndOut) {
  const Placements parts{replicate(), partial(ReduceOp::sum)};
  const Value x = builder_.input("x", {.shape = {4, 6}, .placements = parts});
  builder_.output("parts", builder_.transpose(x, {1, 0}), {.placements = parts});
  const Partitioned cut(builder_.build(), {1, 2});
  EXPECT_EQ(cut.placed.graph.inputs[0].placements, parts);
  EXPECT_EQ(cut.placed.graph.outputs[0].placements, parts);
  EXPECT_EQ(cut.movements(), "");
}

TEST_F(Partition, ConflictsAreSettledByBytes) {
  // The small operand is moved, not the large one.
  const Value small = input("small", {1, 8}, 1);
  const Value large = input("large", {512, 8}, 0);
  builder_.output("out", builder_.add(small, large));
  const Partitioned cut(builder_.build(), {1, 2});
  EXPECT_EQ(cut.movements(), "all_gather");
  EXPECT_EQ(cut.placed.graph.outputs[0].placements, (Placements{replicate(), shard(0)}));
}

TEST_F(Partition, UnevenSumsLeavePaddingOut) {
  const Value x = input("x", {3, 13}, 1);
  const Value y = builder_.op("exp", {x})[0];
  builder_.output("sum",
                  builder_.op("reduce_sum", {y}, {{"axes", std::vector<std::int64_t>{1}}})[0]);
  builder_.output("max", builder_.op("reduce_max", {builder_.op("neg", {y})[0]},
                                     {{"axes", std::vector<std::int64_t>{1}}})[0]);
  builder_.output("product", builder_.matmul(y, constant({13, 4})));
  graph_ = builder_.build();
  expect_same_on({1, 2});
  expect_same_on({1, 8});
  expect_same_on({2, 3});
}

TEST(ShardRules, AreReadAndRefused) {
  const auto rules = parse_shard_rules("re:a=b.*=1@0,0@2");
  ASSERT_EQ(rules.size(), 2U);
  EXPECT_EQ(rules[0].name, "re:a=b.*");
  EXPECT_EQ(rules[0].dim, 1);
  EXPECT_EQ(rules[0].axis, 0);
  EXPECT_EQ(parse_shard_rules("x=3")[0].axis, -1);
  for (const char* wrong : {"x", "=1", "x=", "x=a", "x=1@", "x=1@7", "x=99", "x=-1", "x=0@1,0@0",
                            "x=0@1,1@1", "x=0,1@1"}) {
    EXPECT_THROW(parse_shard_rules(wrong), Error) << wrong;
  }
  EXPECT_EQ(parse_auto_shard("data,tensor").size(), 2U);
  EXPECT_THROW(parse_auto_shard("rows"), Error);
  EXPECT_THROW(parse_auto_shard("data,data"), Error);
  EXPECT_THROW(parse_auto_shard(""), Error);
}

TEST_F(Partition, RefusesWhatCantBe) {
  const Value x = input("x", {4, 6});
  builder_.output("out", builder_.relu(x));
  const Graph graph = builder_.build();
  const auto refused = [&](const ShardWishes& wishes, const MeshShape& mesh) {
    EXPECT_THROW(partition_graph(graph, mesh, wishes), Error);
  };
  refused({{{"x", 2, 0}}, {}}, {2});
  refused({{{"x", 0, 1}}, {}}, {2});
  refused({{{"x", 0, 0}, {"x", 1, 0}}, {}}, {2});
  refused({{{"re:(", 0, 0}}, {}}, {2});
  refused({{{"gone", 0, 0}}, {}}, {2});
}

}  // namespace
}  // namespace tilemesh
