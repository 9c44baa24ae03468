#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "programs.hpp"

namespace tilemesh {
namespace {

using programs::host;

/// sum, last = (sum + x + iteration, sum) again and again, from (x, x): while its largest element
/// is below `bound`, at most `trips` times. Also gives the number of iterations.
Graph sums(std::int64_t limit) {
  Graph graph;
  graph.name = "sums";
  const OperandType type{DType::f32, {2, 3}, {}, true};
  const GraphValueId x = graph.add_value("x", type);
  const GraphValueId bound = graph.add_value("bound", {DType::f32, {}, {}, true});
  const GraphValueId trips = graph.add_value("trips", {DType::i64, {}, {}, true});
  for (const auto& [name, id] : {std::pair{"x", x}, {"bound", bound}, {"trips", trips}})
    graph.inputs.push_back({name, id, InputKind::activation, Space::dram, {}});
  const auto call = [&](GraphBlock& block, const char* op, std::vector<GraphValueId> inputs,
                        Attributes attributes = {}) {
    GraphNode node;
    node.def = &get_op(op);
    node.name = op;
    node.inputs = std::move(inputs);
    node.attributes = std::move(attributes);
    return graph.append(block, std::move(node))[0];
  };
  const auto zero = graph.add_constant("zero", make_constant<std::int64_t>({0}, Shape{}));
  GraphNode loop;
  loop.kind = GraphNode::Kind::loop;
  loop.name = "loop";
  loop.limit = limit;
  loop.inputs = {call(graph.body, "greater", {trips, zero}), trips, zero, x, x};
  loop.blocks = {std::make_shared<GraphBlock>()};
  GraphBlock& body = *loop.blocks[0];
  const GraphValueId iteration = graph.add_value("iteration", {DType::i64, {}, {}, true});
  const GraphValueId sum = graph.add_value("sum", type);
  const GraphValueId last = graph.add_value("last", type);
  body.parameters = {iteration, sum, last};
  const auto number =
      call(body, "cast", {iteration}, {{"to", static_cast<std::int64_t>(DType::f32)}});
  const auto next = call(body, "add", {call(body, "add", {sum, x}), number});
  const auto largest =
      call(body, "reduce_max", {next},
           {{"axes", std::vector<std::int64_t>{0, 1}}, {"keepdims", std::int64_t{0}}});
  body.results = {call(body, "less", {largest, bound}), next, sum};
  const std::vector<GraphValueId> ends = graph.append(graph.body, std::move(loop));
  for (const auto& [name, at] : {std::pair{"iterations", 0}, {"sum", 1}, {"last", 2}})
    graph.outputs.push_back({name, ends[static_cast<std::size_t>(at)], -1, Space::dram, {}});
  return graph;
}

class LoopOn : public testing::TestWithParam<MeshShape> {
 protected:
  const Mesh mesh_ = Mesh::open({.shape = GetParam()});

  static std::vector<Argument> arguments(float bound, std::int64_t trips) {
    return {host({2, 3}), Tensor::adopt(std::vector<float>{bound}, {.shape = Shape{}}),
            Tensor::adopt(std::vector<std::int64_t>{trips}, {.shape = Shape{}})};
  }
};

TEST_P(LoopOn, RunsAsOftenAsItsTripsAndConditionSay) {
  const Executable executable = programs::prepared(mesh_, sums(100));
  for (const auto& [bound, trips] : {std::pair{1e6F, 0}, {1e6F, 1}, {1e6F, 9}, {40.F, 9}}) {
    std::vector<float> sum = programs::iota(6);
    std::vector<float> last = sum;
    std::int64_t count = 0;
    for (bool more = trips > 0; more;) {
      last = sum;
      for (std::size_t i = 0; i < sum.size(); ++i)
        sum[i] += static_cast<float>(i) + static_cast<float>(count);
      more = ++count < trips && sum.back() < bound;
    }
    for (int again = 0; again < 2; ++again) {
      const std::vector<Tensor> got = again == 0 ? run(executable, arguments(bound, trips))
                                                 : submit(executable, arguments(bound, trips));
      EXPECT_EQ(got[0].to_host().item<std::int64_t>(), count);
      EXPECT_EQ(got[1].values<float>(), sum);
      EXPECT_EQ(got[2].values<float>(), last);
    }
  }
}

TEST_P(LoopOn, FailsBeyondItsLimit) {
  const Executable executable = programs::prepared(mesh_, sums(5));
  EXPECT_EQ(run(executable, arguments(1e6F, 5))[0].to_host().item<std::int64_t>(), 5);
  try {
    run(executable, arguments(1e6F, 6))[0].wait();
    FAIL() << "it ran beyond its limit";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kernel_failed);
    EXPECT_THAT(error.what(), testing::HasSubstr("wants more than 5 iterations"));
  }
  EXPECT_EQ(run(executable, arguments(1e6F, 4))[0].to_host().item<std::int64_t>(), 4);
}

TEST_P(LoopOn, IsProfiledAsOnePart) {
  const Executable executable = programs::prepared(mesh_, sums(100));
  const Profile found = profile(executable, arguments(1e6F, 3), 3);
  std::size_t ops = 0;
  std::size_t most = 0;
  for (const ProfiledOps& part : found.parts) {
    ops += part.count;
    most = std::max(most, part.count);
  }
  EXPECT_EQ(ops, executable.program().ops.size());
  EXPECT_GE(most, 8U);
}

INSTANTIATE_TEST_SUITE_P(Meshes, LoopOn,
                         testing::Values(MeshShape{1, 1}, MeshShape{1, 2}, MeshShape{2, 4}));

}  // namespace
}  // namespace tilemesh
