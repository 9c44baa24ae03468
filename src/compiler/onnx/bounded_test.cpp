#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/onnx/testing.hpp"

/// Sizes that depend on the data: room for the most, and a count.
namespace tilemesh::onnx_importer::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::int64_t> whole(const ConstantData& data) {
  return read_as<std::int64_t>(data);
}

Names output_names(const Graph& graph) {
  Names names;
  for (const GraphOutput& output : graph.outputs)
    names.push_back(output.name);
  return names;
}

/// x of 0, 1, 2 and 3 (2 x 2), and where it isn't zero.
Model found_model() {
  Model model(13);
  model.input("x", {std::int64_t{2}, std::int64_t{2}});
  model.node("NonZero", {"x"}, {"found"});
  return model;
}

TEST(OnnxBounded, AnOutputWithRoomHasACount) {
  Model model = found_model();
  model.output("found");
  EXPECT_THAT(output_names(model.import()), ElementsAre("found", "found.count"));
  const auto results = run(model);
  EXPECT_EQ(results[0].shape, (Shape{2, 4}));
  EXPECT_THAT(whole(results[0]), ElementsAre(0, 1, 1, -1, 1, 0, 1, -1));
  EXPECT_EQ(results[1].shape, Shape{});
  EXPECT_THAT(whole(results[1]), ElementsAre(3));
}

TEST(OnnxBounded, KnownDataGiveTheExactSize) {
  Model model(13);
  model.initializer("x", floats({4}, {0, 5, 0, 5}));
  model.node("NonZero", {"x"}, {"found"});
  model.node("Unique", {"x"}, {"values", "", "which"});
  for (const char* name : {"found", "values", "which"})
    model.output(name);
  const auto results = run(model);
  EXPECT_THAT(whole(results[0]), ElementsAre(1, 3));
  EXPECT_THAT(read_as<float>(results[1]), ElementsAre(0, 5));
  EXPECT_THAT(whole(results[2]), ElementsAre(0, 1, 0, 1));
  EXPECT_EQ(results.size(), 3U);
}

TEST(OnnxBounded, WhatGoesElementByElementKeepsTheCount) {
  Model model = found_model();
  model.node("Transpose", {"found"}, {"rows"});
  model.node("GatherND", {"x", "rows"}, {"values"});
  model.node("Neg", {"values"}, {"negative"});
  model.output("negative");
  EXPECT_THAT(output_names(model.import()), ElementsAre("negative", "negative.count"));
  const auto results = run(model);
  EXPECT_THAT(read_as<float>(results[0]), ElementsAre(-1, -2, -3, -3));
  EXPECT_THAT(whole(results[1]), ElementsAre(3));
}

TEST(OnnxBounded, TheShapeIsTheCount) {
  Model model = found_model();
  model.node("Shape", {"found"}, {"shape"});
  model.output("shape");
  EXPECT_THAT(whole(run(model)[0]), ElementsAre(2, 3));
}

TEST(OnnxBounded, WhatWorksAcrossIsRefused) {
  const auto refused = [](const std::function<void(Model&)>& add) {
    Model model = found_model();
    add(model);
    model.output("y");
    EXPECT_THAT(error_of([&] { model.import(); }),
                AllOf(HasSubstr("unsupported"), HasSubstr("dim 1 of \"found\""),
                      HasSubstr("depends on the data")));
  };
  refused([](Model& model) { model.node("ReduceMax", {"found"}, {"y"}); });
  refused([](Model& model) { model.node("Size", {"found"}, {"y"}); });
  refused([](Model& model) {
    model.node("Flatten", {"found"}, {"y"}, {{"axis", std::int64_t{0}}});
  });
  refused([](Model& model) {
    model.initializer("i", integer(0));
    model.node("Gather", {"found", "i"}, {"y"}, {{"axis", std::int64_t{1}}});
  });
  refused([](Model& model) {
    model.node("Concat", {"found", "found"}, {"y"}, {{"axis", std::int64_t{1}}});
  });
  refused([](Model& model) { model.node("NonZero", {"found"}, {"y"}); });
  refused([](Model& model) { model.node("EyeLike", {"found"}, {"y"}); });
}

TEST(OnnxBounded, OtherCountsAndFixedSizesDoNotMix) {
  Model model = found_model();
  model.node("NonZero", {"x"}, {"again"});
  model.node("Add", {"found", "again"}, {"y"});
  model.output("y");
  EXPECT_THAT(error_of([&] { model.import(); }),
              AllOf(HasSubstr("unsupported"), HasSubstr("depends on other data")));
  Model fixed = found_model();
  fixed.initializer("four", integers({1, 2, 3, 4}));
  fixed.node("Add", {"found", "four"}, {"y"});
  fixed.output("y");
  EXPECT_THAT(error_of([&] { fixed.import(); }), HasSubstr("depends on other data"));
  Model same = found_model();
  same.node("Add", {"found", "found"}, {"y"});
  same.output("y");
  EXPECT_THAT(whole(run(same)[0]), ElementsAre(0, 2, 2, -2, 2, 0, 2, -2));
}

TEST(OnnxBounded, CompressByKnownFlagsHasJustWhatTheyChoose) {
  Model model(13);
  model.input("x", {std::int64_t{4}});
  model.initializer("bits", integers({0, 1, 0, 1}));
  model.initializer("zero", integers({0}));
  model.node("Greater", {"bits", "zero"}, {"some"});
  model.node("Compress", {"x", "some"}, {"kept"});
  model.node("Less", {"bits", "zero"}, {"none"});
  model.node("Compress", {"x", "none"}, {"nothing"});
  model.output("kept");
  model.output("nothing");
  EXPECT_THAT(output_names(model.import()), ElementsAre("kept", "nothing"));
  const auto results = run(model);
  EXPECT_EQ(results[0].shape, Shape{2});
  EXPECT_THAT(read_as<float>(results[0]), ElementsAre(1, 3));
  EXPECT_EQ(results[1].shape, Shape{0});
}

TEST(OnnxBounded, CompressAndUniqueAtRunTime) {
  Model model(13);
  model.input("x", {std::int64_t{4}});
  model.initializer("one", floats({}, {1.5F}));
  model.node("Greater", {"x", "one"}, {"large"});
  model.node("Compress", {"x", "large"}, {"kept"});
  model.node("Floor", {"x"}, {"floor"});
  model.node("Unique", {"floor"}, {"values", "first", "which", "often"});
  for (const char* name : {"kept", "values", "first", "which", "often"})
    model.output(name);
  EXPECT_THAT(output_names(model.import()),
              ElementsAre("kept", "values", "first", "which", "often", "kept.count", "values.count",
                          "first.count", "often.count"));
  const auto results = run(model);
  EXPECT_THAT(read_as<float>(results[0]), ElementsAre(2, 3, 0, 0));
  EXPECT_THAT(whole(results[5]), ElementsAre(2));
  EXPECT_THAT(whole(results[6]), ElementsAre(4));
}

TEST(OnnxBounded, NonMaxSuppressionHasRoomForItsLimit) {
  Model model(11);
  model.initializer("boxes", floats({1, 2, 4}, {0, 0, 1, 1, 5, 5, 6, 6}));
  model.input("scores", {std::int64_t{1}, std::int64_t{1}, std::int64_t{2}});
  model.initializer("most", integers({9}));
  model.initializer("overlap", floats({1}, {0.5F}));
  model.initializer("score", floats({1}, {0.5F}));
  model.node("NonMaxSuppression", {"boxes", "scores", "most", "overlap", "score"}, {"chosen"});
  model.output("chosen");
  const auto results = run(model);  // scores of 0 and 1
  EXPECT_EQ(results[0].shape, (Shape{2, 3}));
  EXPECT_THAT(whole(results[0]), ElementsAre(0, 0, 1, -1, -1, -1));
  EXPECT_THAT(whole(results[1]), ElementsAre(1));
}

TEST(OnnxBounded, ABranchHasNoRoomForIt) {
  onnx::GraphProto one;
  add_node(one, "NonZero", {"x"}, {"a"});
  one.add_output()->set_name("a");
  Model model(13);
  model.input("x", {std::int64_t{2}, std::int64_t{2}});
  model.input("c", {}, 9);
  model.node("If", {"c"}, {"y"}, {{"then_branch", one}, {"else_branch", one}});
  model.output("y");
  EXPECT_THAT(error_of([&] { model.import(); }),
              AllOf(HasSubstr("unsupported"), HasSubstr("depends on the data")));
}

}  // namespace
}  // namespace tilemesh::onnx_importer::testing
