#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/onnx/testing.hpp"

/// What operators give for odd values, where docs/onnx.md says whom we follow.
namespace tilemesh::onnx_importer::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::IsNan;
using ::testing::Pointwise;

using Attribute = std::pair<std::string, AttributeOf>;

const ConstantData kAbsent{};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kMost = std::numeric_limits<float>::max();
constexpr std::int64_t kOne = 1;

/// A node of constants alone, its outputs as floats.
std::vector<std::vector<float>> outputs_of(std::int64_t opset, const std::string& op,
                                           const std::vector<ConstantData>& inputs,
                                           const std::vector<Attribute>& attributes = {},
                                           int count = 1) {
  std::vector<std::vector<float>> outputs;
  for (const ConstantData& data : run(one_node(opset, op, {}, inputs, attributes, count))) {
    outputs.push_back(read_as<float>(data));
  }
  return outputs;
}

std::vector<float> result_of(std::int64_t opset, const std::string& op,
                             const std::vector<ConstantData>& inputs,
                             const std::vector<Attribute>& attributes = {}) {
  return outputs_of(opset, op, inputs, attributes)[0];
}

template <class T>
ConstantData line(const std::vector<T>& values) {
  return make_constant(Shape{std::ssize(values)}, values);
}

TEST(OnnxValues, AReductionOfNothingTakesItsOwnStep) {
  const auto of = [](const char* op, std::int64_t keep, const ConstantData& axes) {
    return result_of(18, op, {floats({1, 2}, {-3, 4}), axes},
                     {{"noop_with_empty_axes", kOne}, {"keepdims", keep}});
  };
  for (const ConstantData& axes : {kAbsent, integers({})}) {
    for (const std::int64_t keep : {0, 1}) {
      EXPECT_THAT(of("ReduceL1", keep, axes), ElementsAre(3, 4));
      EXPECT_THAT(of("ReduceL2", keep, axes), ElementsAre(3, 4));
      EXPECT_THAT(of("ReduceSumSquare", keep, axes), ElementsAre(9, 16));
      EXPECT_THAT(of("ReduceLogSum", keep, axes),
                  ElementsAre(IsNan(), FloatNear(1.386294F, 1e-6F)));
      EXPECT_THAT(of("ReduceLogSumExp", keep, axes), ElementsAre(-3, 4));
      for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"}) {
        EXPECT_THAT(of(op, keep, axes), ElementsAre(-3, 4)) << op;
      }
    }
  }
  EXPECT_EQ(read_as<float>(run(one_node(18, "ReduceL1", {}, {line<std::int32_t>({-3, 4})},
                                        {{"noop_with_empty_axes", kOne}}))[0]),
            (std::vector<float>{3, 4}));
}

TEST(OnnxValues, ClipWithoutABoundHoldsInfinitiesInRange) {
  const ConstantData x = floats({3}, {-kInf, 0.5F, kInf});
  EXPECT_THAT(result_of(13, "Clip", {x, floats({}, {0}), kAbsent}), ElementsAre(0, 0.5F, kMost));
  EXPECT_THAT(result_of(13, "Clip", {x, kAbsent, floats({}, {0})}), ElementsAre(-kMost, 0, 0));
  EXPECT_THAT(result_of(6, "Clip", {x}), ElementsAre(-kMost, 0.5F, kMost));
  EXPECT_THAT(result_of(6, "Clip", {x}, {{"min", 1.0F}}), ElementsAre(1, 1, kMost));
  const ConstantData half = make_constant(Shape{1}, std::vector<Half>{Half(kInf)});
  EXPECT_THAT(result_of(13, "Clip", {half}), ElementsAre(65504));
}

TEST(OnnxValues, ClipIsNotBoundByNanWhereverItsBoundsComeFrom) {
  for (const bool known : {true, false}) {
    for (const bool below : {true, false}) {
      Model model(13);
      model.initializer("x", floats({4}, {-5, 0.5F, 5, kNan}));
      // A bound that a run gives: 0 * x0 + NaN, 0 * x0 + 1.
      model.input("x0", {}, 1);
      model.initializer("nan", floats({}, {kNan}));
      model.initializer("one", floats({}, {1}));
      model.node("Add", {"x0", "nan"}, {"run_nan"});
      model.node("Add", {"x0", "one"}, {"run_one"});
      const std::string nan = known ? "nan" : "run_nan";
      const std::string one = known ? "one" : "run_one";
      model.node("Clip", {"x", below ? nan : one, below ? one : nan}, {"y"});
      model.output("y");
      const std::vector<float> y = read_as<float>(run(model)[0]);
      if (below) {
        EXPECT_THAT(y, ElementsAre(-5, 0.5F, 1, IsNan())) << known;
      } else {
        EXPECT_THAT(y, ElementsAre(1, 1, 5, IsNan())) << known;
      }
    }
  }
}

TEST(OnnxValues, ClipTakesTheUpperBoundWhereTheyCross) {
  EXPECT_THAT(result_of(13, "Clip", {floats({3}, {-9, 0, 9}), floats({}, {1}), floats({}, {-1})}),
              ElementsAre(-1, -1, -1));
  EXPECT_THAT(result_of(13, "Clip",
                        {line<std::int32_t>({-9, 0, 9}), line<std::int32_t>({1}),
                         line<std::int32_t>({-1})}),
              ElementsAre(-1, -1, -1));
}

TEST(OnnxValues, PadsBelowZeroCutBeforeOthersRepeat) {
  const auto of = [](const char* mode, const Integers& pads) {
    return result_of(19, "Pad", {floats({4}, {1, 2, 3, 4}), integers(pads)}, {{"mode", mode}});
  };
  EXPECT_THAT(of("wrap", {-1, 2}), ElementsAre(2, 3, 4, 2, 3));
  EXPECT_THAT(of("reflect", {2, -1}), ElementsAre(3, 2, 1, 2, 3));
  EXPECT_THAT(of("edge", {-2, 1}), ElementsAre(3, 4, 4));
  EXPECT_THAT(of("constant", {-2, 1}), ElementsAre(3, 4, 0));
  EXPECT_THAT(of("edge", {-2, -1}), ElementsAre(3));
  EXPECT_THAT(error_of([&] { of("edge", {-4, 1}); }), HasSubstr("pads 0 and 1 don't fit dim 0"));
  EXPECT_THAT(error_of([&] { of("wrap", {-3, -2}); }), HasSubstr("cut more than dim 0"));
}

TEST(OnnxValues, ResizeComputesPlacesInF32) {
  const auto of = [](const ConstantData& x, float scale, std::vector<Attribute> attributes) {
    return result_of(13, "Resize", {x, kAbsent, floats({1}, {scale})}, attributes);
  };
  const ConstantData line5 = floats({5}, {0, 1, 2, 3, 4});
  const auto nearest = [&](const char* coordinate, const char* rounding, float scale) {
    return of(line5, scale,
              {{"coordinate_transformation_mode", coordinate}, {"nearest_mode", rounding}});
  };
  // 1.5 / 0.6 - 0.5 is 2 in f32, and less in f64, where 0.6F is a little more than 0.6.
  EXPECT_THAT(nearest("half_pixel", "floor", 0.6F), ElementsAre(0, 2, 3));
  EXPECT_THAT(nearest("half_pixel", "ceil", 0.6F), ElementsAre(1, 2, 4));
  EXPECT_THAT(nearest("tf_half_pixel_for_nn", "floor", 0.6F), ElementsAre(0, 2, 4));
  // As onnxruntime: 2 of [30] is whole, and linear interpolation of integers is cut off.
  const ConstantData bytes = line<std::uint8_t>({0, 2, 30, 10, 72});
  EXPECT_THAT(of(bytes, 0.6F, {{"mode", "linear"}}), ElementsAre(0, 30, 51));
  // Half way between two elements: 19/32 of each, less 3/32 of the next ones. 5.84 is rounded.
  const ConstantData ints = line<std::int32_t>({0, 10, 1, 0});
  EXPECT_THAT(of(ints, 0.5F, {{"mode", "cubic"}}), ElementsAre(6, 0));
}

TEST(OnnxValues, ResizeBefore11GoesUpWhereItShrinks) {
  const ConstantData x = floats({2, 4}, {0, 1, 2, 3, 4, 5, 6, 7});
  const auto of = [&](const std::vector<float>& scales) {
    return result_of(10, "Resize", {x, floats({2}, scales)});
  };
  EXPECT_THAT(of({1, 0.6F}), ElementsAre(0, 2, 4, 6));           // 0, 1.67
  EXPECT_THAT(of({0.5F, 1.5F}), ElementsAre(0, 0, 1, 2, 2, 3));  // 0; 0, 0.67, 1.33, 2, 2.67, 3.33
  EXPECT_THAT(error_of([&] {
                result_of(9, "Upsample", {x, floats({2}, {1, 0.5F})});
              }),
              HasSubstr("a scale of 0.5, 1 or more is wanted"));
}

TEST(OnnxValues, BatchNormalizationTrainsInThreeDtypes) {
  // x = 60000, 60002, ..: sums that f16 doesn't hold. Mean 60032, variance 32 * 32.
  std::vector<Half> x{Half(60000), Half(60064), Half(60000), Half(60064)};
  const std::vector<ConstantData> inputs = {
      make_constant(Shape{2, 1, 2}, x), make_constant(Shape{1}, std::vector<Half>{Half(2)}),
      make_constant(Shape{1}, std::vector<Half>{Half(1)}), floats({1}, {0}), floats({1}, {1})};
  const Model model = one_node(15, "BatchNormalization", {}, inputs,
                               {{"training_mode", kOne}, {"momentum", 0.5F}}, 3);
  const std::vector<ConstantData> outputs = run(model);
  EXPECT_EQ(outputs[0].dtype, DType::f16);
  EXPECT_EQ(outputs[1].dtype, DType::f32);
  EXPECT_EQ(outputs[2].dtype, DType::f32);
  EXPECT_THAT(read_as<float>(outputs[0]), Pointwise(FloatNear(2e-3F), {-1.0F, 3.0F, -1.0F, 3.0F}));
  EXPECT_THAT(read_as<float>(outputs[1]), ElementsAre(30016));
  EXPECT_THAT(read_as<float>(outputs[2]), ElementsAre(512.5F));
}

}  // namespace
}  // namespace tilemesh::onnx_importer::testing
