#include <cmath>

#include "compiler/passes/constants.hpp"
#include "compiler/passes/pass_test.hpp"

namespace tilemesh {
namespace {

class Widen : public PassTest {
 protected:
  Value cast(Value x, DType to) { return op("cast", {x}, {{"to", static_cast<std::int64_t>(to)}}); }
  Value half(const Shape& shape, unsigned seed) { return cast(constant(shape, seed), DType::f16); }
  std::string ops(Value output) { return ops_after(output, target_, 2e-3); }

  WideningTarget target_;
};

TEST_F(Widen, KeepsResultsWideFromOpToOp) {
  const Value x = input("x", {5, 8}, DType::f16);
  const Value y = op("softmax", {op("matmul", {x, half({8, 8}, 1)})}, {{"axis", std::int64_t{1}}});
  EXPECT_EQ(ops(op("matmul", {y, half({8, 3}, 2)})), "cast matmul softmax matmul cast");
  EXPECT_EQ(constant_input(1, 1).dtype, DType::f32);
  EXPECT_EQ(optimised_[optimised_.outputs[0].value].type.dtype, DType::f16);
}

TEST_F(Widen, FoldsBatchNormsIntoWideWeights) {
  const Value x = input("x", {1, 4, 3, 3}, DType::f16);
  const Value y = op("conv", {x, half({4, 4, 1, 1}, 1)});
  const Value z = op("batch_normalization", {y, half({4}, 2), half({4}, 3), half({4}, 4),
                                             cast(constant({4}, 5, 2), DType::f16)});
  EXPECT_EQ(ops(z), "cast conv cast");
}

TEST_F(Widen, LeavesMovementsWithTheTypeThatTheyMove) {
  const Value x = input("x", {5, 8}, DType::f16);
  EXPECT_EQ(ops(op("transpose", {x}, {{"order", Integers{1, 0}}})), "transpose");
}

TEST_F(Widen, MovesWhatIsWide) {
  const Value x = op("exp", {input("x", {5, 8}, DType::f16)});
  const Value y = op("tanh", {op("transpose", {x}, {{"order", Integers{1, 0}}})});
  EXPECT_EQ(ops(y), "cast map transpose map cast");
}

TEST_F(Widen, LeavesOtherTypes) {
  EXPECT_EQ(ops(op("exp", {input("x", {5}, DType::bf16)})), "map");
}

TEST_F(Widen, KeepsARoundingThatWasAskedFor) {
  const Value x = input("x", {5, 8});
  EXPECT_EQ(ops(op("tanh", {cast(cast(op("exp", {x}), DType::f16), DType::f32)})),
            "map cast cast map");
}

TEST_F(Widen, CastsToOtherTypesSeeTheWrittenValue) {
  const Value x = op("add", {input("x", {1}, DType::f16), cast(scalar(0.999f), DType::f16)});
  builder_.output("out", cast(x, DType::i32));
  Graph graph = builder_.build();
  const testing::Values inputs{{"x", passes::from_floats(DType::f16, {1}, {2048})}};
  const auto wanted = interpret(graph, inputs);
  simplify(graph, {target_, {1, 1}, true, {}});
  EXPECT_EQ(testing::difference(interpret(graph, inputs)[0], wanted[0], 0), "");
}

TEST_F(Widen, DoesNotOverflowWhereItIsScaledNext) {
  const Value q = input("q", {2, 8}, DType::f16);
  const Value scores = op("matmul", {q, op("transpose", {q}, {{"order", Integers{1, 0}}})});
  builder_.output("out", op("mul", {scores, cast(scalar(0.125f), DType::f16)}));
  Graph graph = builder_.build();
  const testing::Values inputs{
      {"q", passes::from_floats(DType::f16, {2, 8}, std::vector<float>(16, 200.0f))}};
  EXPECT_TRUE(std::isinf(passes::to_floats(interpret(graph, inputs)[0])[0]));
  optimise(graph, {target_, {1, 1}, true, {}});
  EXPECT_EQ(passes::to_floats(interpret(graph, inputs)[0])[0], 40000);
}

TEST_F(Widen, WidensTheSidesOfABranch) {
  const Value x = input("x", {4}, DType::f16);
  const Value condition = input("c", {}, DType::boolean);
  builder_.output("out", x);
  Graph graph = builder_.build();
  GraphNode exp;
  exp.def = &get_op("exp");
  exp.inputs = {x.id};
  GraphNode branch;
  branch.kind = GraphNode::Kind::branch;
  branch.inputs = {condition.id};
  branch.blocks = {std::make_shared<GraphBlock>(), std::make_shared<GraphBlock>()};
  const GraphValueId e = graph.append(*branch.blocks[0], exp)[0];
  exp.inputs = {e};
  branch.blocks[0]->results = graph.append(*branch.blocks[0], exp);
  branch.blocks[1]->results = {x.id};
  graph.outputs[0].value = graph.append(graph.body, branch)[0];
  graph.check();
  simplify(graph, {target_, {1, 1}, true, {}});
  EXPECT_EQ(testing::op_names(graph), "if(cast exp exp cast | )");
}

}  // namespace
}  // namespace tilemesh
