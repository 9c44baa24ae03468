#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/onnx/testing.hpp"

/// Nodes in another order than values are made in.
namespace tilemesh::onnx_importer::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void reverse(onnx::GraphProto& graph) {
  std::reverse(graph.mutable_node()->pointer_begin(), graph.mutable_node()->pointer_end());
}

/// y = -(|x| + |x|) * 3 of x = 0, 1, 2
Model chain() {
  Model model;
  model.input("x", {std::int64_t{3}});
  model.initializer("three", floats({}, {3}));
  model.node("Abs", {"x"}, {"a"});
  model.node("Add", {"a", "a"}, {"b"});
  model.node("Neg", {"b"}, {"c"});
  model.node("Mul", {"c", "three"}, {"y"});
  model.output("y");
  return model;
}

TEST(OnnxOrder, NodesAreSorted) {
  Model model = chain();
  EXPECT_THAT(run_floats(model), ElementsAre(0, -6, -12));
  reverse(model.graph());
  EXPECT_THAT(run_floats(model), ElementsAre(0, -6, -12));
  std::swap(*model.graph().mutable_node(0), *model.graph().mutable_node(2));
  EXPECT_THAT(run_floats(model), ElementsAre(0, -6, -12));
}

TEST(OnnxOrder, NodesInSubgraphsAndFunctionsAreSorted) {
  Model model;
  model.input("x", {std::int64_t{3}});
  model.initializer("yes", ConstantData{DType::boolean, Shape(), floats({}, {1}).bytes});
  model.initializer("yes_bytes", integers({1}));
  model.graph().mutable_initializer(0)->set_raw_data("\1");
  // The branch reads a value of the graph around it, and names one of its own as the node's output.
  onnx::GraphProto side;
  add_node(side, "Neg", {"inner"}, {"y"});
  add_node(side, "Add", {"outer", "outer"}, {"inner"});
  side.add_output()->set_name("y");
  model.node("If", {"yes"}, {"y"}, {{"then_branch", side}, {"else_branch", side}});
  model.node("Abs", {"x"}, {"outer"});
  model.output("y");
  EXPECT_THAT(run_floats(model), ElementsAre(0, -2, -4));

  onnx::FunctionProto& function = *model.proto.add_functions();
  function.set_name("Twice");
  function.set_domain("mine");
  function.add_input("a");
  function.add_output("b");
  *function.add_opset_import() = model.proto.opset_import(0);
  onnx::GraphProto body;
  add_node(body, "Identity", {"c"}, {"b"});
  add_node(body, "Add", {"a", "a"}, {"c"});
  *function.mutable_node() = body.node();
  model.proto.add_opset_import()->set_domain("mine");
  model.proto.mutable_opset_import(1)->set_version(1);
  model.node("Twice", {"y"}, {"z"}).set_domain("mine");
  model.graph().mutable_output(0)->set_name("z");
  reverse(model.graph());
  EXPECT_THAT(run_floats(model), ElementsAre(0, -4, -8));
}

TEST(OnnxOrder, ACycleIsNamed) {
  Model model = chain();
  model.graph().mutable_node(0)->set_input(0, "c");
  EXPECT_THAT(error_of([&] { model.import(); }),
              AllOf(HasSubstr("invalid_file: "), HasSubstr("the graph has a cycle: "),
                    HasSubstr("\"a\" is made from \"c\""), HasSubstr("is made from \"a\"")));
  Model self = chain();
  self.graph().mutable_node(1)->set_input(1, "b");
  EXPECT_THAT(error_of([&] { self.import(); }),
              HasSubstr("the graph has a cycle: \"b\" is made from \"b\""));
}

TEST(OnnxOrder, ALongCycleIsCutShort) {
  Model model;
  model.input("x", {std::int64_t{3}});
  for (int i = 0; i < 1000; ++i)
    model.node("Neg", {"v" + std::to_string(i)}, {"v" + std::to_string((i + 1) % 1000)});
  model.output("v7");
  const std::string message = error_of([&] { model.import(); });
  EXPECT_THAT(message, HasSubstr("1000 values"));
  EXPECT_LT(message.size(), 500U);
}

TEST(OnnxOrder, ATypoOfAnOpIsAskedAbout) {
  Model model = chain();
  model.graph().mutable_node(0)->set_op_type("Asb");
  EXPECT_THAT(error_of([&] { model.import(); }),
              AllOf(HasSubstr("unsupported: ops Asb"), HasSubstr("did you mean \"Abs\"")));
}

}  // namespace
}  // namespace tilemesh::onnx_importer::testing
