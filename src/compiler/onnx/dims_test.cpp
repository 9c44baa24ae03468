#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/onnx/testing.hpp"

/// Binding the dims that a model leaves open.
namespace tilemesh::onnx_importer::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// x [batch, ?, 3] and z [batch, length]
Model open_model() {
  Model model;
  model.input("x", {"batch", "", std::int64_t{3}});
  model.input("z", {"batch", "length"});
  model.node("Relu", {"x"}, {"y"});
  model.output("y");
  return model;
}

Shape input_shape(const Graph& graph, std::size_t i) {
  return graph[graph.inputs.at(i).value].type.shape;
}

TEST(OnnxDims, NamesAndShapesBindThem) {
  OnnxOptions options;
  options.dims = {{"length", 7}};
  options.shapes = {{"x", Shape({2, 5, 3})}};  // batch is known from here
  const Graph graph = open_model().import(options);
  EXPECT_EQ(input_shape(graph, 0), Shape({2, 5, 3}));
  EXPECT_EQ(input_shape(graph, 1), Shape({2, 7}));
}

TEST(OnnxDims, WhatStaysOpenIsListedAtOnce) {
  EXPECT_EQ(error_of([] { open_model().import(); }),
            "invalid_argument: the model leaves dims open: input \"x\" is [batch,?,3], input \"z\" "
            "is [batch,length]: bind them with --dim batch=N --shape x=N,N,3 --dim length=N");
}

TEST(OnnxDims, ZeroIsASize) {
  OnnxOptions options;
  options.dims = {{"length", 0}, {"batch", 0}};
  options.shapes = {{"x", Shape({0, 5, 3})}};
  EXPECT_EQ(input_shape(open_model().import(options), 1), Shape({0, 0}));
}

TEST(OnnxDims, ContradictionsNameBothValues) {
  OnnxOptions options;
  options.shapes = {{"x", Shape({2, 5, 4})}};
  EXPECT_THAT(error_of([&] { open_model().import(options); }),
              HasSubstr("input \"x\" is [batch,?,3] in the model, the shape given is [2,5,4]"));
  options.shapes = {{"x", Shape({2, 5})}};
  EXPECT_THAT(error_of([&] { open_model().import(options); }), HasSubstr("[2,5]"));
  options.shapes = {{"x", Shape({2, 5, 3})}, {"z", Shape({4, 1})}};
  EXPECT_THAT(error_of([&] { open_model().import(options); }),
              HasSubstr("\"batch\" is 2 elsewhere"));
  options.shapes = {{"w", Shape({2})}};
  EXPECT_THAT(error_of([&] { open_model().import(options); }),
              AllOf(HasSubstr("no input \"w\""), HasSubstr("\"x\", \"z\"")));
  options.shapes.clear();
  options.dims = {{"batch", -2}, {"length", 1}};
  EXPECT_THAT(error_of([&] { open_model().import(options); }), HasSubstr("invalid_argument"));
}

TEST(OnnxDims, QuestionMarksAreNoName) {
  Model model;
  model.input("x", {"?", "?"});
  model.node("Relu", {"x"}, {"y"});
  model.output("y");
  OnnxOptions options;
  options.shapes = {{"x", Shape({2, 3})}};
  EXPECT_EQ(input_shape(model.import(options), 0), Shape({2, 3}));
  EXPECT_THAT(error_of([&] { model.import(); }), HasSubstr("--shape x=N,N"));
}

TEST(OnnxDims, MinusOneIsOpenAndNoShapeIsAnyRank) {
  Model model;
  model.input("x", {std::int64_t{-1}});
  model.node("Relu", {"x"}, {"y"});
  model.output("y");
  EXPECT_THAT(error_of([&] { model.import(); }), HasSubstr("--shape x=N"));
  model.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_THAT(error_of([&] { model.import(); }), HasSubstr("of any rank"));
  OnnxOptions options;
  options.shapes = {{"x", Shape({2, 3})}};
  EXPECT_EQ(input_shape(model.import(options), 0), Shape({2, 3}));
}

TEST(OnnxDims, OtherTypesAreUnsupported) {
  Model model;
  model.input("x", {std::int64_t{1}}, 8);
  model.node("Relu", {"x"}, {"y"});
  model.output("y");
  EXPECT_EQ(error_of([&] { model.import(); }),
            "unsupported: input \"x\": the element type string isn't supported");
  auto& type = *model.graph().mutable_input(0)->mutable_type();
  type.mutable_sequence_type();
  EXPECT_THAT(error_of([&] { model.import(); }), HasSubstr("input \"x\" is no tensor"));
}

TEST(OnnxDims, RanksAreLimited) {
  Model model;
  model.input("x", std::vector<Dim>(9, std::int64_t{1}));
  model.node("Relu", {"x"}, {"y"});
  model.output("y");
  EXPECT_THAT(error_of([&] { model.import(); }), HasSubstr("has 9 dims, 8 are supported"));
}

}  // namespace
}  // namespace tilemesh::onnx_importer::testing
