#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/onnx/testing.hpp"

/// Operators of images and signals that are made of others, or differ between opsets.
namespace tilemesh::onnx_importer::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

const ConstantData kAbsent{};

std::vector<float> floats_of(
    std::int64_t opset, const std::string& op, const std::vector<Shape>& inputs,
    const std::vector<ConstantData>& constants,
    const std::vector<std::pair<std::string, AttributeOf>>& attributes = {}) {
  return run_floats(one_node(opset, op, inputs, constants, attributes));
}

TEST(OnnxSampling, GridSampleHasOtherNamesBefore20) {
  const ConstantData grid = floats({1, 1, 1, 2}, {0, 0});
  for (const auto& [opset, mode] : {std::pair{16, "bilinear"}, std::pair{20, "linear"}}) {
    EXPECT_THAT(
        floats_of(opset, "GridSample", {{1, 1, 2, 2}}, {grid}, {{"mode", std::string(mode)}}),
        ElementsAre(1.5F));
    EXPECT_THAT(floats_of(opset, "GridSample", {{1, 1, 2, 2}}, {grid}), ElementsAre(1.5F));
  }
}

TEST(OnnxSampling, RoiAlignMovesByHalfAnElementFrom16On) {
  const ConstantData roi = floats({1, 4}, {1, 1, 2, 2});
  const auto at = [&](std::int64_t opset) {
    return floats_of(opset, "RoiAlign", {{1, 1, 4, 4}}, {roi, integers({0})});
  };
  EXPECT_THAT(at(10), ElementsAre(7.5F));  // row and column 1.5
  EXPECT_THAT(at(16), ElementsAre(5));
}

TEST(OnnxSampling, AffineGridCountsFromMiddlesOrCorners) {
  const ConstantData size = integers({1, 1, 1, 2});
  // x is read as 0 x + 1 y + 2, y as 3 x + 4 y + 5.
  EXPECT_THAT(floats_of(20, "AffineGrid", {{1, 2, 3}}, {size}), ElementsAre(2, 3.5F, 2, 6.5F));
  EXPECT_THAT(
      floats_of(20, "AffineGrid", {{1, 2, 3}}, {size}, {{"align_corners", std::int64_t{1}}}),
      ElementsAre(2, 2, 2, 8));
}

TEST(OnnxSampling, DeformConvIsAConvolutionWhereNothingMoves) {
  const ConstantData still = floats({1, 8, 1, 2}, std::vector<float>(16));
  const ConstantData weights = floats({2, 1, 2, 2}, {1, 0, 0, 1, 0, 2, 0, 0});
  const ConstantData bias = floats({2}, {0.5F, 0});
  // Two channels of 2 x 3, each with a kernel of its own.
  EXPECT_THAT(floats_of(19, "DeformConv", {{1, 2, 2, 3}}, {weights, still, bias},
                        {{"group", std::int64_t{2}}}),
              ElementsAre(4.5F, 6.5F, 14, 16));
}

TEST(OnnxSampling, LpPoolSumsWhereTheWindowIsInside) {
  EXPECT_THAT(floats_of(2, "LpPool", {{1, 1, 4}}, {},
                        {{"kernel_shape", Integers{2}}, {"p", std::int64_t{1}}}),
              ElementsAre(1, 3, 5));
  EXPECT_THAT(floats_of(18, "LpPool", {{1, 1, 4}}, {},
                        {{"kernel_shape", Integers{2}},
                         {"strides", Integers{3}},
                         {"ceil_mode", std::int64_t{1}}}),
              Pointwise(FloatNear(1e-6F), {1.0F, 3.0F}));
  EXPECT_THAT(
      floats_of(18, "LpPool", {{1, 1, 2}}, {},
                {{"kernel_shape", Integers{2}}, {"pads", Integers{1, 1}}, {"p", std::int64_t{3}}}),
      Pointwise(FloatNear(1e-6F), {0.0F, 1.0F, 1.0F}));
  EXPECT_THAT(floats_of(2, "GlobalLpPool", {{1, 2, 2}}, {}),
              Pointwise(FloatNear(1e-6F), {1.0F, std::sqrt(13.0F)}));
}

TEST(OnnxSampling, MaxUnpoolPutsElementsBack) {
  const ConstantData indices = make_constant<std::int64_t>({1, 1, 1, 2}, {1, 6});
  const std::vector<std::pair<std::string, AttributeOf>> pool = {{"kernel_shape", Integers{2, 2}},
                                                                 {"strides", Integers{2, 2}}};
  EXPECT_THAT(floats_of(9, "MaxUnpool", {{1, 1, 1, 2}}, {indices}, pool),
              ElementsAre(0, 0, 0, 0, 0, 0, 1, 0));
  EXPECT_THAT(floats_of(11, "MaxUnpool", {{1, 1, 1, 2}}, {indices, integers({1, 1, 2, 5})}, pool),
              ElementsAre(0, 0, 0, 0, 0, 0, 0, 1, 0, 0));
  EXPECT_THAT(error_of([&] {
                floats_of(11, "MaxUnpool", {{1, 1, 1, 2}}, {indices, integers({1, 1, 2, 3})}, pool);
              }),
              HasSubstr("output_shape is [1,1,2,3], its window gives [1,1,2,4]"));
}

TEST(OnnxSampling, CenterCropPadTakesTheMiddle) {
  EXPECT_THAT(floats_of(18, "CenterCropPad", {{5}}, {integers({2})}), ElementsAre(1, 2));
  EXPECT_THAT(floats_of(18, "CenterCropPad", {{2}}, {integers({5})}), ElementsAre(0, 0, 1, 0, 0));
  EXPECT_THAT(
      floats_of(18, "CenterCropPad", {{3, 2}}, {integers({3, 1})}, {{"axes", Integers{-1, 0}}}),
      ElementsAre(2, 3, 0));
}

TEST(OnnxSampling, Col2ImSumsBlocks) {
  EXPECT_THAT(floats_of(18, "Col2Im", {{1, 2, 2}}, {integers({3}), integers({2})}),
              ElementsAre(0, 3, 3));
}

TEST(OnnxSpectrum, DftHasItsAxisAsAnInputFrom20On) {
  // 0, 1, 2 and 3 as two signals of two, along either dim.
  EXPECT_THAT(floats_of(17, "DFT", {{2, 2, 1}}, {}), ElementsAre(1, 0, -1, 0, 5, 0, -1, 0));
  EXPECT_THAT(floats_of(17, "DFT", {{2, 2, 1}}, {}, {{"axis", std::int64_t{0}}}),
              ElementsAre(2, 0, 4, 0, -2, 0, -2, 0));
  EXPECT_THAT(floats_of(20, "DFT", {{2, 2, 1}}, {kAbsent, integer(0)}),
              ElementsAre(2, 0, 4, 0, -2, 0, -2, 0));
  EXPECT_THAT(error_of([] {
                floats_of(20, "DFT", {{2, 2, 1}}, {kAbsent, integer(2)});
              }),
              HasSubstr("real and imaginary"));
}

TEST(OnnxSpectrum, StftTransformsOverlappingFrames) {
  const ConstantData window = floats({2}, {1, 2});
  EXPECT_THAT(floats_of(17, "STFT", {{1, 4, 1}}, {integer(1), window}),
              ElementsAre(2, 0, -2, 0, 5, 0, -3, 0, 8, 0, -4, 0));
  EXPECT_THAT(floats_of(17, "STFT", {{1, 4, 1}}, {integer(2), kAbsent, integer(2)},
                        {{"onesided", std::int64_t{0}}}),
              ElementsAre(1, 0, -1, 0, 5, 0, -1, 0));
}

TEST(OnnxSpectrum, MelBandsRiseAndFall) {
  const auto mel = [](float high) {
    Model model(17);
    model.initializer("bands", integer(2));
    model.initializer("length", integer(16));
    model.initializer("rate", integer(8192));
    model.initializer("low", floats({}, {0}));
    model.initializer("high", floats({}, {high}));
    model.node("MelWeightMatrix", {"bands", "length", "rate", "low", "high"}, {"y"});
    model.output("y");
    return run(model)[0];
  };
  // Corners of 0, 433, 1132 and 2264 Hz, 542 mel apart: bins 0, 0, 2 and 4.
  const ConstantData y = mel(4096);
  EXPECT_EQ(y.shape, (Shape{9, 2}));
  const std::vector<float> weights = read_as<float>(y);
  const auto column = [&](std::size_t band) {
    std::vector<float> result;
    for (std::size_t bin = 0; bin < 9; ++bin)
      result.push_back(weights[bin * 2 + band]);
    return result;
  };
  EXPECT_THAT(column(0), ElementsAre(1, 0.5F, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(column(1), ElementsAre(0, 0.5F, 1, 0.5F, 0, 0, 0, 0, 0));
}

}  // namespace
}  // namespace tilemesh::onnx_importer::testing
