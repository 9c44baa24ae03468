#include <limits>

#include "op_cases.hpp"

namespace tilemesh::ops::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ints = std::vector<std::int64_t>;

Value u8(const Shape& shape, const Ints& elements) {
  return value(DType::u8, shape, elements);
}
Value i8(const Shape& shape, const Ints& elements) {
  return value(DType::i8, shape, elements);
}
Value i32(const Shape& shape, const Ints& elements) {
  return value(DType::i32, shape, elements);
}
Ints numbers(const Value& from) {
  return elements<std::int64_t>(from);
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Quantize, TiesGoToEvenBeforeTheZeroPointIsAdded) {
  const Value x = f32({6}, {0.25F, 0.75F, 1.25F, -0.25F, -0.75F, -1.25F});
  EXPECT_THAT(numbers(run("quantize", {x, f32({}, {0.5F}), u8({}, {3})})),
              ElementsAre(3, 5, 5, 3, 1, 1));
}

TEST(Quantize, DividesInsteadOfMultiplyingByAReciprocal) {
  // 3.5 * 0.117 in f32, which times 1 / 0.117 is just below 3.5.
  const std::vector<float> ties = {0.5F * 0.117F, 2.5F * 0.117F, 3.5F * 0.117F, 4.5F * 0.117F};
  std::vector<double> wanted;
  for (const float tie : ties) {
    wanted.push_back(std::nearbyint(tie / 0.117F));
  }
  EXPECT_THAT(elements<double>(run("quantize", {f32({4}, ties), f32({}, {0.117F})})),
              ::testing::ElementsAreArray(wanted));
}

TEST(Quantize, SaturatesByDtype) {
  const Value x = f32({5}, {-1e9F, 1e9F, -kInfinity, kInfinity, kNan});
  const Value one = f32({}, {1});
  const auto saturated = [&](DType dtype) {
    return numbers(run("quantize", {x, one}, {{"dtype", static_cast<std::int64_t>(dtype)}}));
  };
  EXPECT_THAT(saturated(DType::u8), ElementsAre(0, 255, 0, 255, 0));
  EXPECT_THAT(saturated(DType::i8), ElementsAre(-128, 127, -128, 127, -128));
  EXPECT_THAT(saturated(DType::u16), ElementsAre(0, 65535, 0, 65535, 0));
  EXPECT_THAT(saturated(DType::i16), ElementsAre(-32768, 32767, -32768, 32767, -32768));
}

TEST(Quantize, OneScaleForEachIndexOfADim) {
  const Value x = f32({2, 2}, {10, 10, -10, -10});
  EXPECT_THAT(numbers(run("quantize", {x, f32({2, 1}, {1, 2}), i8({2, 1}, {0, 1})})),
              ElementsAre(10, 10, -4, -4));
}

TEST(Quantize, BlocksMayEndBeforeTheirSize) {
  const Attributes blocks = {{"axis", std::int64_t{-1}}, {"block_size", std::int64_t{2}}};
  const Value x = f32({2, 3}, {8, 8, 8, 8, 8, 8});
  EXPECT_THAT(
      numbers(run("quantize", {x, f32({2, 2}, {1, 2, 4, 8}), u8({2, 2}, {0, 1, 2, 3})}, blocks)),
      ElementsAre(8, 8, 5, 4, 4, 4));
  EXPECT_THAT(infer_error("quantize", {x, f32({2, 3}, {1, 1, 1, 1, 1, 1})}, blocks),
              HasSubstr("[2,2]"));
}

TEST(Quantize, SumsRoundOnce) {
  // 3 * 0.5 + (1 * 1 + 3) = 5.5 and 1 * 0.5 + 4 = 4.5, to even; 255 saturates.
  EXPECT_THAT(numbers(run("quantized_add", {u8({3}, {3, 1, 255}), u8({}, {1}), f32({}, {0.5F}),
                                            f32({}, {1}), f32({3}, {3, 3, 200})})),
              ElementsAre(6, 4, 255));
  // 255 * 0.1F is 25.5000004, which f32 holds as 25.5: less 25 it is above a half all the same.
  EXPECT_THAT(numbers(run("quantized_add", {u8({}, {255}), u8({}, {0}), f32({}, {0.1F}),
                                            f32({}, {0}), f32({}, {-25})})),
              ElementsAre(1));
}

TEST(Quantize, ProductsAreOfDifferences) {
  // (7 - 3) * (6 - 1) * 0.125 + 1 = 3.5 to 4; (1 - 3) * 5 * 0.125 + 1 = -0.25 to 0.
  EXPECT_THAT(numbers(run("quantized_mul", {u8({2}, {7, 1}), u8({}, {6}), f32({}, {0.125F}),
                                            f32({}, {1}), u8({}, {3}), u8({}, {1})})),
              ElementsAre(4, 0));
  EXPECT_THAT(
      infer_error("quantized_mul", {u8({2}, {7, 1}), i8({}, {6}), f32({}, {0.125F}), f32({}, {1})}),
      HasSubstr("i8"));
  EXPECT_THAT(infer_error("quantized_mul",
                          {u8({2}, {7, 1}), u8({}, {6}), f32({3}, {1, 1, 1}), f32({}, {1})}),
              HasSubstr("broadcasts to [2]"));
}

TEST(Quantize, RefusesWhatItCannotMean) {
  const Value x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  const Value scale = f32({}, {1});
  EXPECT_THAT(infer_error("quantize", {x, f32({2}, {1, 1})}), HasSubstr("broadcasts to [2,3]"));
  EXPECT_THAT(infer_error("quantize", {x, scale, u8({}, {0})},
                          {{"dtype", static_cast<std::int64_t>(DType::i8)}}),
              HasSubstr("i8, got u8"));
  EXPECT_THAT(
      infer_error("quantize", {x, scale}, {{"dtype", static_cast<std::int64_t>(DType::i64)}}),
      HasSubstr("got i64"));
  EXPECT_THAT(infer_error("quantize", {x, scale}, {{"axis", std::int64_t{1}}}), HasSubstr("axis"));
  EXPECT_THAT(infer_error("quantize", {x, u8({}, {1})}), HasSubstr("wants a float"));
}

TEST(Dequantize, DifferencesAreExact) {
  EXPECT_THAT(
      elements<float>(run("dequantize", {u8({3}, {0, 255, 7}), f32({}, {0.5F}), u8({}, {255})})),
      ElementsAre(-127.5F, 0, -124));
  EXPECT_THAT(elements<float>(run("dequantize", {i32({2}, {1 << 30, -3}), f32({2}, {0.5F, 2})})),
              ElementsAre(static_cast<float>(1 << 29), -6));
  const Value half = run("dequantize", {i8({1}, {3}), value<float>(DType::f16, {}, {0.5F})});
  EXPECT_EQ(half.type.dtype, DType::f16);
  EXPECT_THAT(elements<float>(half), ElementsAre(1.5F));
}

TEST(Requantize, AddsTheBiasBeforeItScales) {
  EXPECT_THAT(numbers(run("requantize", {i32({2, 2}, {10, -10, 1000, 3}), f32({2, 1}, {0.5F, 1}),
                                         i8({}, {-1}), i32({2, 1}, {1, 0})})),
              ElementsAre(5, -5, 127, 2));  // 5.5 and -4.5 are ties
}

TEST(RangeToScale, CoversZero) {
  const auto outputs =
      run_all("range_to_scale", {f32({4}, {-1, 1, 0, -3}), f32({4}, {1.55F, 5.1F, 0, -2.55F})});
  EXPECT_THAT(elements<float>(outputs[0]), ElementsAre(2.55F / 255, 5.1F / 255, 1, 3.0F / 255));
  EXPECT_THAT(numbers(outputs[1]), ElementsAre(100, 0, 0, 255));
}

TEST(MatMulInteger, IsExactBeyondSixteenBits) {
  // 255 * -128 twice overflows what instructions that add pairs in 16 bits hold.
  const Value a = u8({1, 4}, {255, 255, 255, 255});
  const Value b = i8({4, 1}, {-128, -128, -128, -128});
  EXPECT_THAT(numbers(run("matmul_integer", {a, b})), ElementsAre(-130560));
  EXPECT_THAT(numbers(run("matmul_integer", {a, b, u8({}, {0}), i8({}, {127})})),
              ElementsAre(-260100));
}

TEST(MatMulInteger, ZeroPointsOfRowsAndColumns) {
  const Value a = u8({2, 2}, {1, 2, 3, 4});
  const Value b = u8({2, 2}, {5, 6, 7, 8});
  // [[0,1],[1,2]] @ [[5,4],[7,6]]
  EXPECT_THAT(numbers(run("matmul_integer", {a, b, u8({2, 1}, {1, 2}), u8({2}, {0, 2})})),
              ElementsAre(7, 6, 19, 16));
  EXPECT_THAT(infer_error("matmul_integer", {a, b, i8({}, {1})}), HasSubstr("same dtype"));
  EXPECT_THAT(infer_error("matmul_integer", {a, b, u8({3}, {1, 1, 1})}), HasSubstr("broadcasts"));
  EXPECT_THAT(infer_error("matmul_integer", {f32({1}, {1}), b}), HasSubstr("u8 or i8"));
}

TEST(ConvInteger, PadsWithTheZeroPoint) {
  const Value x = u8({1, 1, 3}, {4, 5, 6});
  const Value w = i8({2, 1, 2}, {1, 2, 3, 4});
  const Attributes padded = {{"pads", Ints{1, 0}}};
  // Differences 1 2 3 with a zero before them; the second kernel's are 0 1.
  EXPECT_THAT(numbers(run("conv_integer", {x, w, u8({}, {3}), i8({2, 1, 1}, {0, 3})}, padded)),
              ElementsAre(2, 5, 8, 1, 2, 3));
}

}  // namespace
}  // namespace tilemesh::ops::testing
