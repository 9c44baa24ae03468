#include <array>

#include <gtest/gtest.h>

#include "programs.hpp"

namespace tilemesh {
namespace {

using programs::host;
using programs::refused;

/// softmax(relu(x w)) w: ops that aren't fused into one.
Graph several_ops() {
  ProgramBuilder builder("several");
  const auto x = builder.input("x", {.shape = {5, 5}});
  const auto w = builder.input("w", {.shape = {5, 5}}, InputKind::parameter);
  builder.output("y", builder.matmul(builder.softmax(builder.matmul(x, w), 1), w));
  return builder.build();
}

/// softmax of x, after relu(x) where `positive`, of its exponentials otherwise
Graph with_a_branch() {
  Graph graph;
  const OperandType type{DType::f32, {2, 3}, {}, true};
  const GraphValueId positive = graph.add_value("positive", {DType::boolean, {}, {}, true});
  const GraphValueId x = graph.add_value("x", type);
  graph.inputs = {{"positive", positive, InputKind::activation, Space::dram, {}},
                  {"x", x, InputKind::activation, Space::dram, {}}};
  const auto call = [&](GraphBlock& block, const char* op, GraphValueId input) {
    GraphNode node;
    node.def = &get_op(op);
    node.inputs = {input};
    return graph.append(block, std::move(node))[0];
  };
  GraphNode branch;
  branch.kind = GraphNode::Kind::branch;
  branch.inputs = {positive};
  branch.blocks = {std::make_shared<GraphBlock>(), std::make_shared<GraphBlock>()};
  branch.blocks[0]->results = {call(*branch.blocks[0], "relu", x)};
  branch.blocks[1]->results = {call(*branch.blocks[1], "exp", x)};
  const GraphValueId chosen = graph.append(graph.body, std::move(branch))[0];
  graph.outputs = {{"y", call(graph.body, "softmax", chosen), -1, Space::dram, {}}};
  return graph;
}

void expect_all_ops_once(const Profile& profile, const Program& program) {
  std::size_t next = 0;
  for (const ProfiledOps& part : profile.parts) {
    EXPECT_EQ(part.first, next);
    EXPECT_GT(part.median_seconds, 0);
    next += part.count;
  }
  EXPECT_EQ(next, program.ops.size());
}

void expect_same(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.values<float>(), b.values<float>());
}

class ProfileOn : public testing::TestWithParam<MeshShape> {};

TEST_P(ProfileOn, TimesEveryOpOfARealRun) {
  const Mesh mesh = Mesh::open({.shape = GetParam()});
  const Executable executable = programs::prepared(mesh, several_ops());
  ASSERT_GT(executable.program().ops.size(), 1U);
  const std::vector<Argument> arguments{host({5, 5}, -12), host({5, 5}, -3)};
  const Profile found = profile(executable, arguments, 3);
  expect_all_ops_once(found, executable.program());
  EXPECT_EQ(found.parts.size(), executable.program().ops.size());
  expect_same(found.outputs.at(0), run(executable, arguments).at(0));
}

TEST_P(ProfileOn, KeepsABranchInOnePart) {
  const Mesh mesh = Mesh::open({.shape = GetParam()});
  const Executable executable = programs::prepared(mesh, with_a_branch());
  for (const bool positive : {true, false}) {
    const std::vector<Argument> arguments{Tensor::copy(std::array{positive}, {.shape = {}}),
                                          host({2, 3}, -2)};
    const Profile found = profile(executable, arguments, 1);
    expect_all_ops_once(found, executable.program());
    EXPECT_LT(found.parts.size(), executable.program().ops.size());
    EXPECT_GT(found.parts.size(), 1U);
    expect_same(found.outputs.at(0), run(executable, arguments).at(0));
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, ProfileOn, testing::Values(MeshShape{1, 1}, MeshShape{1, 3}));

TEST(Profile, RefusesWhatOneRunTakesOver) {
  const Mesh mesh = Mesh::open();
  const Executable state = programs::prepared(mesh, programs::accumulate({2}));
  std::string text = refused(ErrorCode::invalid_argument, [&] {
    profile(state, std::vector<Argument>{host({2}), host({2})}, 1);
  });
  EXPECT_NE(text.find("\"next\""), std::string::npos) << text;
  const Executable add = programs::prepared(mesh, programs::add({2}));
  text = refused(ErrorCode::invalid_argument, [&] {
    profile(add, std::vector<Argument>{host({2}), donate(host({2}))}, 1);
  });
  EXPECT_NE(text.find("argument 1"), std::string::npos) << text;
  refused(ErrorCode::invalid_argument, [&] {
    profile(add, std::vector<Argument>{host({2}), host({2})}, 0);
  });
}

}  // namespace
}  // namespace tilemesh
