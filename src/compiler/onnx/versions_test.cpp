#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/onnx/testing.hpp"

/// What operators meant in one opset and mean in another.
namespace tilemesh::onnx_importer::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

const ConstantData kAbsent{};
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

Shape shape_of(const Model& model, std::size_t output = 0) {
  const Graph graph = model.import();
  return graph[graph.outputs.at(output).value].type.shape;
}

TEST(OnnxVersions, SoftmaxFlattensBefore13) {
  const auto sum_of_first_two = [](const std::vector<float>& y) {
    return y[0] + y[1];
  };
  const auto old = run_floats(one_node(11, "Softmax", {{2, 2, 2}}, {}));
  EXPECT_NEAR(old[0] + old[1] + old[2] + old[3], 1, 1e-6);
  EXPECT_LT(sum_of_first_two(old), 0.2);
  const auto now = run_floats(one_node(13, "Softmax", {{2, 2, 2}}, {}));
  EXPECT_NEAR(sum_of_first_two(now), 1, 1e-6);
}

TEST(OnnxVersions, ClipTakesAttributesThenInputs) {
  const std::vector<float> wanted = {1, 1, 2, 3, 3};
  EXPECT_EQ(run_floats(one_node(6, "Clip", {{5}}, {}, {{"min", 1.0F}, {"max", 3.0F}})), wanted);
  EXPECT_EQ(run_floats(one_node(11, "Clip", {{5}}, {floats({}, {1}), floats({}, {3})})), wanted);
  EXPECT_THAT(run_floats(one_node(11, "Clip", {{5}}, {kAbsent, floats({}, {3})})),
              ElementsAre(0, 1, 2, 3, 3));
  EXPECT_THAT(run_floats(one_node(13, "Clip", {{3}}, {})), ElementsAre(0, 1, 2));
}

TEST(OnnxVersions, ClipKeepsIntegersBeyondDoubles) {
  constexpr std::int64_t kOdd = (std::int64_t{1} << 53) + 1;
  Model model(13);
  model.initializer("x", integers({0, kMax}));
  model.initializer("high", integer(kOdd));
  model.node("Clip", {"x", "", "high"}, {"y"});
  model.output("y");
  EXPECT_THAT(read_as<std::int64_t>(run(model)[0]), ElementsAre(0, kOdd));
}

TEST(OnnxVersions, AxesAreAttributesThenInputs) {
  const Integers axes = {0, -1};
  EXPECT_EQ(shape_of(one_node(11, "Squeeze", {{1, 3, 1}}, {}, {{"axes", axes}})), Shape({3}));
  EXPECT_EQ(shape_of(one_node(13, "Squeeze", {{1, 3, 1}}, {integers(axes)})), Shape({3}));
  EXPECT_EQ(shape_of(one_node(13, "Squeeze", {{1, 3, 1}}, {})), Shape({3}));
  EXPECT_EQ(shape_of(one_node(11, "Unsqueeze", {{3}}, {}, {{"axes", axes}})), Shape({1, 3, 1}));
  EXPECT_EQ(shape_of(one_node(13, "Unsqueeze", {{3}}, {integers(axes)})), Shape({1, 3, 1}));
  EXPECT_EQ(shape_of(one_node(11, "ReduceSum", {{2, 3}}, {}, {{"axes", Integers{1}}})),
            Shape({2, 1}));
  EXPECT_EQ(shape_of(one_node(13, "ReduceSum", {{2, 3}}, {integers({1})})), Shape({2, 1}));
  EXPECT_EQ(shape_of(one_node(17, "ReduceMean", {{2, 3}}, {}, {{"axes", Integers{1}}})),
            Shape({2, 1}));
  EXPECT_EQ(shape_of(one_node(18, "ReduceMean", {{2, 3}}, {integers({1})})), Shape({2, 1}));
}

TEST(OnnxVersions, NoAxesMeanAllUnlessToldOtherwise) {
  EXPECT_EQ(shape_of(one_node(13, "ReduceSum", {{2, 3}}, {})), Shape({1, 1}));
  EXPECT_EQ(shape_of(one_node(13, "ReduceSum", {{2, 3}}, {},
                              {{"noop_with_empty_axes", std::int64_t{1}}})),
            Shape({2, 3}));
  EXPECT_EQ(shape_of(one_node(18, "ReduceMax", {{2, 3}}, {integers({})},
                              {{"noop_with_empty_axes", std::int64_t{1}}})),
            Shape({2, 3}));
}

TEST(OnnxVersions, SliceClampsWhateverIsAsked) {
  const auto slice = [](std::int64_t start, std::int64_t end, std::int64_t step) {
    return run_floats(one_node(
        13, "Slice", {{5}}, {integers({start}), integers({end}), integers({0}), integers({step})}));
  };
  EXPECT_THAT(slice(1, 3, 1), ElementsAre(1, 2));
  EXPECT_THAT(slice(-2, kMax, 1), ElementsAre(3, 4));
  EXPECT_THAT(slice(kMin, kMax, 2), ElementsAre(0, 2, 4));
  EXPECT_THAT(slice(kMax, kMin, -1), ElementsAre(4, 3, 2, 1, 0));
  EXPECT_THAT(slice(-1, 0, -2), ElementsAre(4, 2));
  EXPECT_THAT(slice(3, 3, 1), ElementsAre());
  EXPECT_THAT(slice(0, 5, kMax), ElementsAre(0));
  EXPECT_THAT(slice(4, 0, kMin), ElementsAre(4));
  EXPECT_THAT(run_floats(one_node(9, "Slice", {{5}}, {},
                                  {{"starts", Integers{1}}, {"ends", Integers{-1}}})),
              ElementsAre(1, 2, 3));
}

TEST(OnnxVersions, SliceOfNothingIsNothing) {
  EXPECT_EQ(shape_of(one_node(13, "Slice", {{0, 2}},
                              {integers({3}), integers({kMin}), integers({0}), integers({-1})})),
            Shape({0, 2}));
}

TEST(OnnxVersions, SplitIntoEqualAndGivenParts) {
  EXPECT_EQ(shape_of(one_node(11, "Split", {{5}}, {}, {{"split", Integers{2, 3}}}, 2), 1),
            Shape({3}));
  EXPECT_EQ(shape_of(one_node(13, "Split", {{5}}, {integers({2, 3})}, {}, 2), 1), Shape({3}));
  EXPECT_EQ(shape_of(one_node(13, "Split", {{6}}, {}, {}, 2), 1), Shape({3}));
  EXPECT_EQ(shape_of(one_node(18, "Split", {{7}}, {}, {{"num_outputs", std::int64_t{3}}}, 3), 2),
            Shape({1}));
  EXPECT_THAT(error_of([] { one_node(13, "Split", {{7}}, {}, {}, 3).import(); }),
              HasSubstr("7 elements don't split into 3 equal parts"));
}

TEST(OnnxVersions, PadTakesAttributesThenInputsThenAxes) {
  EXPECT_THAT(
      run_floats(one_node(10, "Pad", {{2}}, {}, {{"pads", Integers{1, 0}}, {"value", 7.0F}})),
      ElementsAre(7, 0, 1));
  EXPECT_THAT(run_floats(one_node(11, "Pad", {{2}}, {integers({0, 1}), floats({}, {7})})),
              ElementsAre(0, 1, 7));
  EXPECT_EQ(shape_of(one_node(18, "Pad", {{2, 2}}, {integers({1, 1}), kAbsent, integers({-1})})),
            Shape({2, 4}));
  EXPECT_THAT(run_floats(one_node(11, "Pad", {{3}}, {integers({2, 0})}, {{"mode", "reflect"}})),
              ElementsAre(2, 1, 0, 1, 2));
}

TEST(OnnxVersions, UpsampleAndResizeAgreeWhereTheyShould) {
  const std::vector<float> scales = {2};
  const std::vector<float> wanted = {0, 0, 1, 1};
  EXPECT_EQ(run_floats(one_node(7, "Upsample", {{2}}, {}, {{"scales", scales}})), wanted);
  EXPECT_EQ(run_floats(one_node(9, "Upsample", {{2}}, {floats({1}, scales)})), wanted);
  EXPECT_EQ(run_floats(one_node(10, "Resize", {{2}}, {floats({1}, scales)})), wanted);
  EXPECT_EQ(run_floats(one_node(13, "Resize", {{2}}, {kAbsent, floats({1}, scales)})), wanted);
  EXPECT_EQ(run_floats(one_node(13, "Resize", {{2}}, {kAbsent, kAbsent, integers({4})})), wanted);
  EXPECT_EQ(
      shape_of(one_node(18, "Resize", {{1, 4, 8}}, {kAbsent, kAbsent, integers({8, 8})},
                        {{"axes", Integers{1, 2}}, {"keep_aspect_ratio_policy", "not_larger"}})),
      Shape({1, 4, 8}));
}

TEST(OnnxVersions, DropoutIsTheIdentity) {
  const auto old = run(one_node(7, "Dropout", {{2}}, {}, {}, 2));
  EXPECT_EQ(old[1].dtype, DType::f32);
  const auto now = run(one_node(12, "Dropout", {{2}}, {}, {}, 2));
  EXPECT_THAT(read_as<float>(now[0]), ElementsAre(0, 1));
  EXPECT_EQ(now[1].dtype, DType::boolean);
  EXPECT_THAT(read_as<float>(now[1]), ElementsAre(1, 1));
  const ConstantData training = filled(DType::boolean, {}, 1);
  EXPECT_THAT(error_of([&] {
                one_node(12, "Dropout", {{2}}, {floats({}, {0.5F}), training}).import();
              }),
              HasSubstr("unsupported: Dropout"));
}

TEST(OnnxVersions, AutoPadBecomesPads) {
  const auto conv_with = [](const std::string& mode, Integers strides) {
    const Graph graph = one_node(11, "Conv", {{1, 1, 5, 4}, {1, 1, 3, 2}}, {},
                                 {{"auto_pad", mode}, {"strides", std::move(strides)}})
                            .import();
    return graph.body.nodes.at(0).attributes.integers("pads");
  };
  EXPECT_THAT(conv_with("SAME_UPPER", {1, 1}), ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(conv_with("SAME_LOWER", {1, 1}), ElementsAre(1, 1, 1, 0));
  EXPECT_THAT(conv_with("SAME_UPPER", {2, 4}), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(conv_with("VALID", {1, 1}), ElementsAre(0, 0, 0, 0));
}

TEST(OnnxVersions, ConvTransposeTakesItsOutputShape) {
  EXPECT_EQ(shape_of(one_node(11, "ConvTranspose", {{1, 1, 3}, {1, 1, 3}}, {},
                              {{"strides", Integers{2}}, {"output_shape", Integers{6}}})),
            Shape({1, 1, 6}));
  EXPECT_EQ(shape_of(one_node(11, "ConvTranspose", {{1, 1, 3}, {1, 1, 3}}, {},
                              {{"strides", Integers{2}}, {"output_shape", Integers{9}}})),
            Shape({1, 1, 9}));
  EXPECT_EQ(shape_of(one_node(11, "ConvTranspose", {{1, 1, 3}, {1, 1, 3}}, {},
                              {{"strides", Integers{2}}, {"auto_pad", "SAME_UPPER"}})),
            Shape({1, 1, 6}));
}

TEST(OnnxVersions, GroupNormalizationScalesGroupsThenChannels) {
  const auto with = [](std::int64_t opset, const std::vector<float>& scale) {
    const auto count = std::ssize(scale);
    return run_floats(one_node(opset, "GroupNormalization", {{1, 4, 2}},
                               {floats({count}, scale), filled(DType::f32, {count}, 1)},
                               {{"num_groups", std::int64_t{2}}}));
  };
  const std::vector<float> groups = with(18, {1, 2});
  EXPECT_THAT(groups, Pointwise(FloatNear(1e-5F), with(21, {1, 1, 2, 2})));
  EXPECT_NEAR(groups[0], 1 - 1.5 / std::sqrt(1.25), 1e-4);
}

TEST(OnnxVersions, TopKTakesAnAttributeThenAnInput) {
  EXPECT_THAT(run_floats(one_node(9, "TopK", {{4}}, {}, {{"k", std::int64_t{2}}}, 2)),
              ElementsAre(3, 2));
  EXPECT_THAT(
      run_floats(one_node(11, "TopK", {{4}}, {integers({2})}, {{"largest", std::int64_t{0}}}, 2)),
      ElementsAre(0, 1));
}

TEST(OnnxVersions, BatchNormalizationMayTrain) {
  const ConstantData one = floats({1}, {1});
  const ConstantData zero = floats({1}, {0});
  const Model model = one_node(15, "BatchNormalization", {{1, 1, 3}}, {one, zero, zero, one},
                               {{"training_mode", std::int64_t{1}}, {"momentum", 0.5F}}, 3);
  const std::vector<ConstantData> outputs = run(model);
  EXPECT_NEAR(read_as<float>(outputs[0])[1], 0, 1e-6);
  EXPECT_NEAR(read_as<float>(outputs[1])[0], 0.5, 1e-6);
  EXPECT_NEAR(read_as<float>(outputs[2])[0], 0.5 + 0.5 * 2 / 3, 1e-6);
}

TEST(OnnxVersions, OldOpsetsServeWhatHasNotChanged) {
  EXPECT_THAT(run_floats(one_node(1, "Relu", {{2}}, {})), ElementsAre(0, 1));
  EXPECT_THAT(error_of([] {
                one_node(6, "Add", {{2}, {2}}, {}).import();
              }),
              HasSubstr("Add (node \"y0\": supported from opset 7, the model has 6)"));
  EXPECT_THAT(error_of([] { one_node(13, "Gelu", {{2}}, {}).import(); }),
              HasSubstr("supported from opset 20"));
  EXPECT_THAT(error_of([] { one_node(99, "Relu", {{2}}, {}).import(); }),
              HasSubstr("unsupported: opset 99"));
}

TEST(OnnxVersions, GemmScalesAndTransposes) {
  const Model model =
      one_node(13, "Gemm", {{2, 1}, {1, 2}, {2}}, {}, {{"alpha", 2.0F}, {"beta", 3.0F}});
  EXPECT_THAT(run_floats(model), ElementsAre(0, 3, 0, 5));  // 2 * [0 1]' [0 1] + 3 * [0 1]
  const Model transposed = one_node(13, "Gemm", {{1, 2}, {2, 1}}, {},
                                    {{"transA", std::int64_t{1}}, {"transB", std::int64_t{1}}});
  EXPECT_THAT(run_floats(transposed), ElementsAre(0, 0, 0, 1));
}

TEST(OnnxVersions, LayoutOneIsTransposedAway) {
  const ConstantData w = filled(DType::f32, {1, 2, 1}, 0.5);
  const ConstantData r = filled(DType::f32, {1, 2, 2}, 0.25);
  const auto shape_with = [&](std::int64_t layout, const Shape& x) {
    return shape_of(one_node(14, "RNN", {x}, {w, r}, {{"layout", layout}}));
  };
  EXPECT_EQ(shape_with(0, {5, 3, 1}), Shape({5, 1, 3, 2}));
  EXPECT_EQ(shape_with(1, {3, 5, 1}), Shape({3, 5, 1, 2}));
}

}  // namespace
}  // namespace tilemesh::onnx_importer::testing
