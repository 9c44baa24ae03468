#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/interpret.hpp"
#include "compiler/onnx/testing.hpp"

/// If, with conditions that are known and that aren't, and functions.
namespace tilemesh::onnx_importer::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A branch that gives `op` of the outer value x.
onnx::GraphProto side(const std::string& op, const std::string& name,
                      const std::vector<std::pair<std::string, AttributeOf>>& attributes = {}) {
  onnx::GraphProto graph;
  add_node(graph, op, {"x"}, {name}, attributes);
  graph.add_output()->set_name(name);
  return graph;
}

Model if_model(const onnx::GraphProto& then_side, const onnx::GraphProto& else_side) {
  Model model(13);
  model.input("x", {std::int64_t{2}});
  model.input("condition", {}, 9);
  model.node("If", {"condition"}, {"y"}, {{"then_branch", then_side}, {"else_branch", else_side}});
  model.output("y");
  return model;
}

OnnxOptions with_condition(bool value) {
  OnnxOptions options;
  options.values["condition"] = filled(DType::boolean, {}, value ? 1 : 0);
  return options;
}

std::vector<float> run_with(const Graph& graph, bool condition) {
  return read_as<float>(interpret(
      graph,
      {{"x", floats({2}, {1, 2})}, {"condition", filled(DType::boolean, {}, condition)}})[0]);
}

TEST(OnnxIf, KnownConditionsTakeOneSide) {
  const Model model = if_model(side("Neg", "a"), side("NotAnOp", "b"));
  const Graph graph = model.import(with_condition(true));
  ASSERT_EQ(graph.body.nodes.size(), 1U);
  EXPECT_EQ(graph.body.nodes[0].def->name, "neg");
  EXPECT_THAT(error_of([&] { model.import(with_condition(false)); }), HasSubstr("ops NotAnOp"));
}

TEST(OnnxIf, OpenConditionsBecomeBranches) {
  const Graph graph = if_model(side("Neg", "a"), side("Exp", "b")).import();
  ASSERT_EQ(graph.body.nodes.size(), 1U);
  EXPECT_EQ(graph.body.nodes[0].kind, GraphNode::Kind::branch);
  EXPECT_THAT(run_with(graph, true), ElementsAre(-1, -2));
  EXPECT_NEAR(run_with(graph, false)[0], 2.71828, 1e-4);
}

TEST(OnnxIf, SidesMayPassOuterValuesThrough) {
  onnx::GraphProto through;
  through.add_output()->set_name("x");
  const Graph graph = if_model(through, side("Neg", "b")).import();
  EXPECT_THAT(run_with(graph, true), ElementsAre(1, 2));
  EXPECT_THAT(run_with(graph, false), ElementsAre(-1, -2));
}

TEST(OnnxIf, ASideThatCannotWorkFailsOnlyWhenTaken) {
  const onnx::GraphProto broken = side("Transpose", "b", {{"perm", Integers{1, 0}}});
  const Graph graph = if_model(side("Neg", "a"), broken).import();
  EXPECT_THAT(run_with(graph, true), ElementsAre(-1, -2));
  EXPECT_THAT(error_of([&] { run_with(graph, false); }),
              AllOf(HasSubstr("kernel_failed"), HasSubstr("Transpose")));
  const Graph other = if_model(broken, side("Neg", "a")).import();
  EXPECT_THAT(run_with(other, false), ElementsAre(-1, -2));
}

TEST(OnnxIf, TwoSidesThatCannotWorkAreAnError) {
  const onnx::GraphProto broken = side("Transpose", "b", {{"perm", Integers{1, 0}}});
  EXPECT_THAT(error_of([&] { if_model(broken, broken).import(); }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("neither branch works")));
}

TEST(OnnxIf, SidesOfDifferentTypesAreUnsupported) {
  const onnx::GraphProto other = side("Cast", "b", {{"to", std::int64_t{7}}});
  EXPECT_THAT(error_of([&] { if_model(side("Neg", "a"), other).import(); }),
              AllOf(HasSubstr("unsupported"), HasSubstr("f32[2] and i64[2]")));
}

TEST(OnnxIf, UnknownOpsOfBothSidesAreListed) {
  EXPECT_THAT(error_of([] { if_model(side("Foo", "a"), side("Bar", "b")).import(); }),
              AllOf(HasSubstr("Foo (node \"a\")"), HasSubstr("Bar (node \"b\")")));
}

TEST(OnnxIf, SidesNest) {
  onnx::GraphProto inner;
  add_node(inner, "If", {"condition"}, {"c"},
           {{"then_branch", side("Neg", "a")}, {"else_branch", side("Abs", "b")}});
  inner.add_output()->set_name("c");
  const Graph graph = if_model(inner, side("Exp", "d")).import();
  EXPECT_THAT(run_with(graph, true), ElementsAre(-1, -2));
}

TEST(OnnxIf, ACountOfResultsThatDiffersIsBroken) {
  onnx::GraphProto two = side("Neg", "a");
  two.add_output()->set_name("a");
  EXPECT_THAT(error_of([&] { if_model(two, side("Neg", "b")).import(); }),
              AllOf(HasSubstr("invalid_file"), HasSubstr("a branch gives 2 results")));
  EXPECT_THAT(error_of([&] { if_model(two, two).import(with_condition(true)); }),
              HasSubstr("a branch gives 2 results"));
}

TEST(OnnxIf, ConditionsAreOneBool) {
  Model model = if_model(side("Neg", "a"), side("Neg", "b"));
  model.graph().mutable_node(0)->set_input(0, "x");
  EXPECT_THAT(error_of([&] { model.import(); }), HasSubstr("must be one bool, not f32[2]"));
}

onnx::FunctionProto& add_function(Model& model, const std::string& name) {
  onnx::FunctionProto& function = *model.proto.add_functions();
  function.set_name(name);
  function.set_domain("mine");
  function.add_input("a");
  function.add_output("b");
  function.add_opset_import()->set_version(13);
  auto& set = *function.add_opset_import();
  set.set_domain("mine");
  set.set_version(1);
  return function;
}

onnx::NodeProto& add_call(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                          const std::string& domain, const std::string& op, const std::string& in,
                          const std::string& out) {
  onnx::NodeProto& node = *nodes.Add();
  node.set_op_type(op);
  node.set_domain(domain);
  node.add_input(in);
  node.add_output(out);
  return node;
}

Model function_model() {
  Model model(13);
  model.input("x", {std::int64_t{2}});
  model.output("y");
  auto& set = *model.proto.add_opset_import();
  set.set_domain("mine");
  set.set_version(1);
  return model;
}

TEST(OnnxFunctions, AreInlinedWithTheirAttributes) {
  Model model = function_model();
  onnx::FunctionProto& function = add_function(model, "Leaky");
  function.add_attribute("slope");
  onnx::NodeProto& negated = add_call(*function.mutable_node(), "", "Neg", "a", "n");
  negated.set_name("inner");
  onnx::AttributeProto& slope =
      *add_call(*function.mutable_node(), "", "LeakyRelu", "n", "b").add_attribute();
  slope.set_name("alpha");
  slope.set_type(onnx::AttributeProto::FLOAT);
  slope.set_ref_attr_name("slope");
  set(add_call(*model.graph().mutable_node(), "mine", "Leaky", "x", "y"), "slope", 0.5F);
  EXPECT_THAT(run_floats(model), ElementsAre(0, -0.5));
}

TEST(OnnxFunctions, MayHaveDefaults) {
  Model model = function_model();
  onnx::FunctionProto& function = add_function(model, "Leaky");
  onnx::AttributeProto slope;
  slope.set_name("slope");
  slope.set_type(onnx::AttributeProto::FLOAT);
  slope.set_f(0.25F);
  function.mutable_unknown_fields()->AddLengthDelimited(11, slope.SerializeAsString());
  add_call(*function.mutable_node(), "", "Neg", "a", "n");
  onnx::AttributeProto& alpha =
      *add_call(*function.mutable_node(), "", "LeakyRelu", "n", "b").add_attribute();
  alpha.set_name("alpha");
  alpha.set_type(onnx::AttributeProto::FLOAT);
  alpha.set_ref_attr_name("slope");
  add_call(*model.graph().mutable_node(), "mine", "Leaky", "x", "y");
  EXPECT_THAT(run_floats(model), ElementsAre(0, -0.25));
}

TEST(OnnxFunctions, ThatCallThemselvesAreRefused) {
  Model model = function_model();
  onnx::FunctionProto& function = add_function(model, "Again");
  add_call(*function.mutable_node(), "mine", "Again", "a", "b");
  add_call(*model.graph().mutable_node(), "mine", "Again", "x", "y");
  EXPECT_THAT(error_of([&] { model.import(); }), HasSubstr("does it call itself?"));
}

TEST(OnnxFunctions, ThatGrowWithoutEndAreRefused) {
  Model model = function_model();
  for (int level = 0; level < 30; ++level) {  // 2^30 nodes
    onnx::FunctionProto& function = add_function(model, "F" + std::to_string(level));
    const std::string domain = level == 0 ? "" : "mine";
    const std::string op = level == 0 ? "Neg" : "F" + std::to_string(level - 1);
    add_call(*function.mutable_node(), domain, op, "a", "m");
    add_call(*function.mutable_node(), domain, op, "m", "b");
  }
  add_call(*model.graph().mutable_node(), "mine", "F29", "x", "y");
  EXPECT_THAT(error_of([&] { model.import(); }), HasSubstr("nodes with its functions inlined"));
}

}  // namespace
}  // namespace tilemesh::onnx_importer::testing
