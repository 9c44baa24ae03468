#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/onnx/testing.hpp"

/// What is computed at once, and what stays.
namespace tilemesh::onnx_importer::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const GraphNode& node : graph.body.nodes)
    names.emplace_back(node.def->name);
  return names;
}

// x -> [batch, -1], the way exporters write it.
Model flattening_model() {
  Model model(13);
  model.input("x", {"batch", std::int64_t{3}, std::int64_t{2}});
  model.initializer("zero", integers({0}));
  model.initializer("rest", integers({-1}));
  model.node("Shape", {"x"}, {"shape"});
  model.node("Gather", {"shape", "zero"}, {"batch"});
  model.node("Concat", {"batch", "rest"}, {"wanted"}, {{"axis", std::int64_t{0}}});
  model.node("Reshape", {"x", "wanted"}, {"y"});
  model.output("y");
  return model;
}

TEST(OnnxFolding, ShapeChainsVanish) {
  OnnxOptions options;
  options.dims["batch"] = 4;
  const Graph graph = flattening_model().import(options);
  EXPECT_THAT(ops_of(graph), ElementsAre("reshape"));
  EXPECT_EQ(graph[graph.outputs[0].value].type.shape, Shape({4, 6}));
  EXPECT_EQ(graph.values.size(), 2U) << "values that nothing uses are pruned";
}

TEST(OnnxFolding, ConstantsMayBeResults) {
  Model model;
  model.initializer("a", floats({2}, {1, 2}));
  model.initializer("b", floats({}, {10}));
  model.node("Add", {"a", "b"}, {"y"});
  model.output("y");
  const Graph graph = model.import();
  EXPECT_TRUE(graph.body.nodes.empty());
  ASSERT_TRUE(graph.is_constant(graph.outputs[0].value));
  EXPECT_THAT(read_as<float>(*graph[graph.outputs[0].value].constant), ElementsAre(11, 12));
}

TEST(OnnxFolding, LargeFillsAreMadeAtRunTime) {
  const auto fill = [](std::int64_t count) {
    Model model;
    model.initializer("shape", integers({count}));
    model.node("ConstantOfShape", {"shape"}, {"y"});
    model.output("y");
    return model.import();
  };
  EXPECT_TRUE(fill(1000).body.nodes.empty());
  EXPECT_THAT(ops_of(fill(std::int64_t{1} << 30)), ElementsAre("expand"));
  EXPECT_THAT(error_of([&] { fill(std::int64_t{1} << 62); }),
              HasSubstr("more than 1099511627776 elements"));
}

TEST(OnnxFolding, ConstantsCanNotFillTheMemory) {
  Model model(13);
  model.initializer("a", integer(0));
  model.initializer("b", integer(1 << 22));
  model.initializer("c", integer(1));
  Names all;
  for (int i = 0; i < 20; ++i) {  // 32 MiB each
    all.push_back("r" + std::to_string(i));
    model.node("Range", {"a", "b", "c"}, {all.back()});
  }
  model.node("Sum", all, {"y"});
  model.output("y");
  EXPECT_THAT(error_of([&] { model.import(); }), HasSubstr("constants that the model computes"));
}

TEST(OnnxFolding, DeadNodesNeedNoSupport) {
  Model model;
  model.input("x", {std::int64_t{2}});
  model.node("Relu", {"x"}, {"y"});
  model.node("Unique", {"x"}, {"unused"});
  model.node("NotAnOp", {"y"}, {"unused too"});
  model.output("y");
  EXPECT_THAT(ops_of(model.import()), ElementsAre("relu"));
}

TEST(OnnxFolding, InitializersThatAreInputsAreConstants) {
  Model model;
  model.input("w", {std::int64_t{1}});
  model.initializer("w", floats({1}, {3}));
  model.node("Neg", {"w"}, {"y"});
  model.output("y");
  const Graph graph = model.import();
  EXPECT_TRUE(graph.inputs.empty());
  EXPECT_THAT(read_as<float>(*graph[graph.outputs[0].value].constant), ElementsAre(-3));
}

TEST(OnnxFolding, GivenValuesStopBeingInputs) {
  Model model(13);
  model.input("x", {std::int64_t{6}});
  model.input("shape", {std::int64_t{2}}, 7);
  model.node("Reshape", {"x", "shape"}, {"y"});
  model.output("y");
  OnnxOptions options;
  options.values["shape"] = integers({2, 3});
  const Graph graph = model.import(options);
  ASSERT_EQ(graph.inputs.size(), 1U);
  EXPECT_EQ(graph.inputs[0].name, "x");
  EXPECT_EQ(graph[graph.outputs[0].value].type.shape, Shape({2, 3}));

  options.values["shape"] = floats({2}, {2, 3});
  EXPECT_THAT(error_of([&] { model.import(options); }), HasSubstr("is f32, the model wants i64"));
}

TEST(OnnxFolding, IdentitiesLeaveNoTrace) {
  Model model(13);
  model.input("x", {std::int64_t{2}, std::int64_t{3}});
  model.initializer("same", integers({0, -1}));
  model.node("Identity", {"x"}, {"a"});
  model.node("Reshape", {"a", "same"}, {"b"});
  model.node("Transpose", {"b"}, {"c"}, {{"perm", Integers{0, 1}}});
  model.node("Cast", {"c"}, {"d"}, {{"to", std::int64_t{1}}});
  model.node("Relu", {"d"}, {"y"});
  model.output("y");
  EXPECT_THAT(ops_of(model.import()), ElementsAre("relu"));
}

TEST(OnnxFolding, MetadataAndNamesAreKept) {
  Model model;
  model.input("x", {std::int64_t{1}});
  model.node("Relu", {"x"}, {"y"}).set_name("first");
  model.output("y");
  auto& entry = *model.proto.add_metadata_props();
  entry.set_key("character");
  entry.set_value("abc");
  const Graph graph = model.import();
  EXPECT_EQ(graph.name, "test");
  EXPECT_EQ(graph.metadata.at("character"), "abc");
  EXPECT_EQ(graph.body.nodes[0].name, "first");
  EXPECT_EQ(graph[graph.outputs[0].value].name, "y");
  OnnxOptions options;
  options.name = "mine";
  EXPECT_EQ(model.import(options).name, "mine");
}

TEST(OnnxFolding, IndexOutsideIsTheModelsMistake) {
  Model model(13);
  model.initializer("x", floats({2}, {1, 2}));
  model.initializer("at", integers({5}));
  model.node("Gather", {"x", "at"}, {"y"});
  model.output("y");
  EXPECT_THAT(error_of([&] { model.import(); }), HasSubstr("invalid_argument: Gather \"y\""));
}

}  // namespace
}  // namespace tilemesh::onnx_importer::testing
