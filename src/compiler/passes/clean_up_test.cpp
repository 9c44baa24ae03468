#include "compiler/passes/pass.hpp"
#include "compiler/passes/pass_test.hpp"

namespace tilemesh {
namespace {

using CleanUp = PassTest;

TEST_F(CleanUp, DropsWhatNobodyReads) {
  const Value x = input("x", {2, 3});
  op("softmax", {op("transpose", {x}, {{"order", Integers{1, 0}}})}, {{"axis", std::int64_t{0}}});
  EXPECT_EQ(ops_after(op("softmax", {x}, {{"axis", std::int64_t{1}}})), "softmax");
}

TEST_F(CleanUp, DropsUnusedOptionalOutputs) {
  const Value x = input("x", {1, 2, 4, 4});
  const auto pooled = builder_.op("max_pool", {x}, {{"kernel", Integers{2, 2}}}, 2);
  EXPECT_EQ(ops_after(pooled[0]), "max_pool");
  EXPECT_EQ(node(0).outputs.size(), 1u);
}

TEST_F(CleanUp, RemovesIdentitiesOfEveryKind) {
  Value x = input("x", {2, 3});
  x = op("identity", {x});
  x = op("reshape", {x}, {{"shape", Integers{2, 3}}});
  x = op("transpose", {x}, {{"order", Integers{0, 1}}});
  x = op("expand", {x}, {{"shape", Integers{2, 3}}});
  x = op("cast", {x}, {{"to", static_cast<std::int64_t>(DType::f32)}});
  x = op("mul", {x, scalar(1)});
  x = op("sub", {x, scalar(0)});
  x = op("pow", {x, scalar(1)});
  x = op("pad", {x}, {{"pads", Integers{0, 0, 0, 0}}, {"mode", std::string("constant")}});
  x = op("slice", {x},
         {{"starts", Integers{0}},
          {"ends", Integers{3}},
          {"axes", Integers{1}},
          {"steps", Integers{1}}});
  EXPECT_EQ(ops_after(x), "");
}

TEST_F(CleanUp, KeepsAReversingSlice) {
  const Value x = input("x", {4});
  EXPECT_EQ(ops_after(op("slice", {x},
                         {{"starts", Integers{3}},
                          {"ends", Integers{-1}},
                          {"axes", Integers{0}},
                          {"steps", Integers{-1}}})),
            "slice");
}

TEST_F(CleanUp, MergesChainsOfReshapesAndTransposes) {
  Value x = input("x", {2, 3, 4});
  x = op("reshape", {op("reshape", {x}, {{"shape", Integers{6, 4}}})},
         {{"shape", Integers{4, 3, 2}}});
  x = op("transpose", {x}, {{"order", Integers{2, 0, 1}}});
  x = op("transpose", {x}, {{"order", Integers{0, 2, 1}}});
  EXPECT_EQ(ops_after(x), "reshape transpose");
  EXPECT_EQ(node(1).attributes.integers("order"), (Integers{2, 1, 0}));
}

TEST_F(CleanUp, TransposeOfDimsOfOneIsAReshape) {
  const Value x = input("x", {2, 1, 3, 1});
  EXPECT_EQ(ops_after(op("transpose", {x}, {{"order", Integers{1, 0, 3, 2}}})), "reshape");
}

TEST_F(CleanUp, AReductionOverDimsOfOneIsAReshape) {
  const Value x = input("x", {3, 1, 2, 1});
  EXPECT_EQ(
      ops_after(op("reduce_mean", {x}, {{"axes", Integers{1, 3}}, {"keepdims", std::int64_t{0}}})),
      "reshape");
}

TEST_F(CleanUp, AReductionOverMoreStays) {
  const Value x = input("x", {3, 1, 2, 1});
  EXPECT_EQ(ops_after(op("reduce_max", {x}, {{"axes", Integers{2, 3}}})), "reduce_max");
}

TEST_F(CleanUp, EqualCallsAndConstantsAreOne) {
  const Value x = input("x", {2, 4});
  const Value a = op("matmul", {x, constant({4, 4}, 3)});
  const Value b = op("matmul", {x, constant({4, 4}, 3)});
  const Value c = op("matmul", {x, constant({4, 4}, 4)});
  EXPECT_EQ(ops_after(op("concat", {a, b, c}, {{"axis", std::int64_t{0}}})),
            "matmul matmul concat");
}

TEST_F(CleanUp, FoldsConstants) {
  const Value x = input("x", {2, 4});
  const Value w = op("transpose", {constant({3, 4})}, {{"order", Integers{1, 0}}});
  EXPECT_EQ(ops_after(op("matmul", {x, op("sin", {w})})), "matmul");
}

TEST_F(CleanUp, DoesNotFoldWhatWouldCostMuchMemory) {
  const Value big = op("expand", {scalar(2)}, {{"shape", Integers{1024, 1024}}});
  const Value x = input("x", {1024});
  EXPECT_EQ(ops_after(op("reduce_max", {op("concat", {big, builder_.reshape(x, {1, 1024})},
                                           {{"axis", std::int64_t{0}}})})),
            "expand reshape concat reduce_max");
}

TEST_F(CleanUp, KeepsTheSideOfAKnownBranch) {
  GraphBlock then_block;
  GraphBlock else_block;
  const Value x = input("x", {2, 4});
  builder_.output("out", x);
  Graph graph = builder_.build();
  GraphNode relu;
  relu.def = &get_op("relu");
  relu.inputs = {x.id};
  then_block.results = graph.append(then_block, relu);
  GraphNode tanh = relu;
  tanh.def = &get_op("tanh");
  else_block.results = graph.append(else_block, tanh);
  GraphNode branch;
  branch.kind = GraphNode::Kind::branch;
  auto no = std::make_shared<const std::vector<std::byte>>(1, std::byte{0});
  branch.inputs = {graph.add_constant("no", {DType::boolean, {}, no})};
  branch.blocks = {std::make_shared<GraphBlock>(then_block),
                   std::make_shared<GraphBlock>(else_block)};
  graph.outputs[0].value = graph.append(graph.body, branch)[0];
  graph.check();
  EXPECT_EQ(testing::op_names(graph), "if(relu | tanh)");
  EXPECT_TRUE(passes::inline_known_branches(graph));
  graph.check();
  EXPECT_EQ(testing::op_names(graph), "tanh");
}

TEST_F(CleanUp, KeepsAllPartsOfASplit) {
  const Value x = input("x", {4});
  const Value first =
      builder_.op("split", {x}, {{"axis", std::int64_t{0}}, {"sizes", Integers{3, 1}}}, 2)[0];
  EXPECT_EQ(ops_after(first), "split");
  EXPECT_EQ(node(0).outputs.size(), 2U);
}

TEST_F(CleanUp, KeepsABranchThatMayFail) {
  const Value x = input("x", {2});
  const Value flag = input("flag", {}, DType::boolean);
  builder_.output("out", x);
  Graph graph = builder_.build();
  GraphNode branch;
  branch.kind = GraphNode::Kind::branch;
  branch.inputs = {flag.id};
  branch.blocks = {std::make_shared<GraphBlock>(), std::make_shared<GraphBlock>()};
  GraphNode fail;
  fail.kind = GraphNode::Kind::fail;
  fail.message = "no";
  branch.blocks[1]->nodes.push_back(fail);
  graph.append(graph.body, branch);
  optimise(graph, {reference_target(), {1, 1}, true, {}});
  EXPECT_EQ(testing::op_names(graph), "if( | fail)");
}

}  // namespace
}  // namespace tilemesh
