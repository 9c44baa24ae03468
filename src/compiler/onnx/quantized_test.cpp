#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/onnx/testing.hpp"

/// Quantized operators of com.microsoft, on numbers worked out by hand, and what of them is
/// refused. tools/contrib_quantized.py compares more of them with onnxruntime itself.
namespace tilemesh::onnx_importer::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Settings = std::vector<std::pair<std::string, AttributeOf>>;

const ConstantData kAbsent{};

ConstantData bytes(const Shape& shape, const std::vector<std::uint8_t>& values) {
  return make_constant(shape, values);
}

ConstantData byte(std::uint8_t value) {
  return bytes({}, {value});
}

ConstantData real(float value) {
  return floats({}, {value});
}

std::vector<ConstantData> computed(const std::string& op, const std::vector<ConstantData>& inputs,
                                   const Settings& attributes = {}) {
  Model model = one_node(17, op, {}, inputs, attributes);
  model.graph().mutable_node(0)->set_domain("com.microsoft");
  return run(model);
}

std::vector<float> first(const std::vector<ConstantData>& outputs) {
  return read_as<float>(outputs.at(0));
}

TEST(QuantizedOps, SumsRoundWithTheirZeroPoint) {
  // (3 - 1) * 0.5 + (2 - 2) * 1 = 1 = half a step of 2: 5.5 with the zero point, which is even at
  // 6, and not 0 + 5. Beside it 1.5 steps: 6.5, which is 6 and not 2 + 5.
  const std::vector<ConstantData> operands = {
      bytes({2}, {3, 7}), real(0.5F), byte(1), byte(2), real(1), byte(2), real(2), byte(5)};
  EXPECT_THAT(first(computed("QLinearAdd", operands)), ElementsAre(6, 6));
  // (3 - 1) * (4 - 2) * 0.5 / 4 = 0.5, and 1.5 beside it.
  const std::vector<ConstantData> factors = {
      bytes({2}, {3, 7}), real(0.5F), byte(1), byte(4), real(1), byte(2), real(4), byte(5)};
  EXPECT_THAT(first(computed("QLinearMul", factors)), ElementsAre(6, 6));
}

TEST(QuantizedOps, ResultsSaturate) {
  const std::vector<ConstantData> operands = {bytes({2}, {0, 255}),
                                              real(1),
                                              byte(128),
                                              bytes({2}, {0, 255}),
                                              real(1),
                                              byte(128),
                                              real(1),
                                              byte(128)};
  EXPECT_THAT(first(computed("QLinearAdd", operands)), ElementsAre(0, 255));
}

TEST(QuantizedOps, ImagesAreSummedInIntegers) {
  const auto x = bytes({1, 1, 2, 2}, {1, 2, 3, 8});
  EXPECT_THAT(first(computed("QLinearGlobalAveragePool", {x, real(2), byte(1), real(1), byte(10)})),
              ElementsAre(15));  // (14 - 4) / 4 * 2 + 10
  const auto last = bytes({1, 1, 2, 2}, {1, 2, 3, 8});
  EXPECT_THAT(first(computed("QLinearGlobalAveragePool", {last, real(1), byte(0), real(1), byte(0)},
                             {{"channels_last", std::int64_t{1}}})),
              ElementsAre(2, 5));
}

TEST(QuantizedOps, WeightsOfFewBitsAreUnpacked) {
  // Of 4 bits: 9 and 7 less 8, then 1 and 15, in blocks of 2 with scales 1 and 0.5.
  const auto weights = bytes({1, 2, 1}, {0x79, 0xf1});
  const auto scales = floats({2}, {1, 0.5F});
  const auto ones = floats({1, 4}, {1, 10, 100, 1000});
  const Settings sizes = {{"K", std::int64_t{4}},
                          {"N", std::int64_t{1}},
                          {"bits", std::int64_t{4}},
                          {"block_size", std::int64_t{2}}};
  EXPECT_THAT(first(computed("MatMulNBits", {ones, weights, scales}, sizes)),
              ElementsAre(1 - 10 - 350 + 3500));
  // Zero points 9 and 1, packed.
  EXPECT_THAT(first(computed("MatMulNBits", {ones, weights, scales, bytes({1}, {0x19})}, sizes)),
              ElementsAre(0 - 20 + 0 + 7000));
}

std::string refusal(const std::string& op, const std::vector<ConstantData>& inputs,
                    const Settings& attributes) {
  return error_of([&] { computed(op, inputs, attributes); });
}

TEST(QuantizedOps, RefusalsNameTheAttribute) {
  const auto weights = bytes({1, 1, 1}, {0x79});
  const std::vector<ConstantData> operands = {floats({1, 2}, {1, 1}), weights, floats({1}, {1})};
  Settings sizes = {{"K", std::int64_t{2}},
                    {"N", std::int64_t{1}},
                    {"bits", std::int64_t{3}},
                    {"block_size", std::int64_t{2}}};
  EXPECT_THAT(refusal("MatMulNBits", operands, sizes),
              HasSubstr("its bits are 3: 2, 4 and 8 are supported"));
  sizes[2].second = std::int64_t{4};
  sizes[3].second = std::int64_t{0};
  EXPECT_THAT(refusal("MatMulNBits", operands, sizes),
              HasSubstr("its block_size 0: each must be at least 1"));
  sizes[3].second = std::int64_t{2};
  sizes.emplace_back("weight_prepacked", std::int64_t{1});
  EXPECT_THAT(refusal("MatMulNBits", operands, sizes), HasSubstr("its weight_prepacked is 1"));
  sizes.pop_back();
  sizes[1].second = std::int64_t{2};
  EXPECT_THAT(refusal("MatMulNBits", operands, sizes),
              HasSubstr("its weights are u8[1,1,1]: 2 bytes of u8 are wanted"));
  EXPECT_THAT(refusal("QLinearSoftmax", {bytes({1}, {1}), real(1), byte(0), real(1), byte(0)}, {}),
              HasSubstr("opset"));
  EXPECT_THAT(refusal("QLinearConcat", {real(1), byte(0), bytes({1}, {1}), real(1)},
                      {{"axis", std::int64_t{0}}}),
              HasSubstr("it has 4 inputs"));
  EXPECT_THAT(refusal("QGemm",
                      {bytes({1, 1}, {1}), floats({2}, {1, 2}), byte(0), bytes({1, 1}, {1}),
                       real(1), byte(0)},
                      {}),
              HasSubstr("its a_scale has the shape [2]: one element is supported"));
}

TEST(QuantizedOps, LayoutsOfOneMachineAreRefusedWithARemedy) {
  Model model = one_node(17, "ReorderInput", {{1, 16, 2, 2}}, {});
  model.graph().mutable_node(0)->set_domain("com.microsoft.nchwc");
  EXPECT_THAT(error_of([&] { model.import(); }), HasSubstr("ORT_ENABLE_EXTENDED at most"));
}

TEST(QuantizedOps, LstmsRefuseWhatTheyDontKnow) {
  const auto w = bytes({1, 1, 4}, {1, 2, 3, 4});
  const std::vector<ConstantData> operands = {floats({1, 1, 1}, {1}),
                                              w,
                                              w,
                                              kAbsent,
                                              kAbsent,
                                              kAbsent,
                                              kAbsent,
                                              kAbsent,
                                              floats({1}, {1}),
                                              bytes({1}, {0}),
                                              floats({1}, {1}),
                                              bytes({1}, {0})};
  EXPECT_THAT(refusal("DynamicQuantizeLSTM", operands, {{"direction", std::string("up")}}),
              HasSubstr("its direction is \"up\": forward, reverse or bidirectional is wanted"));
  EXPECT_THAT(refusal("DynamicQuantizeLSTM", operands, {{"hidden_size", std::int64_t{2}}}),
              HasSubstr("its hidden_size is 2"));
  auto wrong = operands;
  wrong[1] = bytes({1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_THAT(refusal("DynamicQuantizeLSTM", wrong, {}),
              HasSubstr("its input 1 is [1,2,4], [1,1,4] is wanted"));
}

}  // namespace
}  // namespace tilemesh::onnx_importer::testing
