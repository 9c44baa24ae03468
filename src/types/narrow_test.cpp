#include "tilemesh/types/narrow.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tilemesh/types/dtype_traits.hpp"
#include "tilemesh/types/strided.hpp"

namespace tilemesh {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
using Round = NarrowRule::Round;

template <class S>
std::vector<int> encoded(DType dtype, const std::vector<S>& values, const NarrowRule& rule = {}) {
  std::vector<std::byte> bytes(values.size());
  convert_to_narrow(reinterpret_cast<const std::byte*>(values.data()), kDTypeOf<S>, bytes.data(),
                    dtype, static_cast<std::int64_t>(values.size()), rule);
  std::vector<int> codes;
  for (const std::byte byte : bytes)
    codes.push_back(std::to_integer<int>(byte));
  return codes;
}

int encoded_one(DType dtype, float value, const NarrowRule& rule = {}) {
  return encoded(dtype, std::vector<float>{value}, rule)[0];
}

float decoded(DType dtype, int code) {
  return decode_narrow(dtype, static_cast<std::byte>(code));
}

TEST(Narrow, LargestAndSmallestNumbersAreThoseOfTheFormats) {
  EXPECT_EQ(decoded(DType::f8e4m3fn, 0x7e), 448);
  EXPECT_EQ(decoded(DType::f8e4m3fn, 0x01), std::ldexp(1.0F, -9));
  EXPECT_EQ(decoded(DType::f8e4m3fnuz, 0x7f), 240);
  EXPECT_EQ(decoded(DType::f8e4m3fnuz, 0x01), std::ldexp(1.0F, -10));
  EXPECT_EQ(decoded(DType::f8e5m2, 0x7b), 57344);
  EXPECT_EQ(decoded(DType::f8e5m2, 0x7c), kInf);
  EXPECT_EQ(decoded(DType::f8e5m2, 0xfc), -kInf);
  EXPECT_EQ(decoded(DType::f8e5m2, 0x01), std::ldexp(1.0F, -16));
  EXPECT_EQ(decoded(DType::f8e5m2fnuz, 0x7f), 57344);
  EXPECT_EQ(decoded(DType::f8e5m2fnuz, 0x01), std::ldexp(1.0F, -17));
  EXPECT_EQ(decoded(DType::f8e8m0, 0), std::ldexp(1.0F, -127));
  EXPECT_EQ(decoded(DType::f8e8m0, 254), std::ldexp(1.0F, 127));
  const std::vector<float> fours = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  for (int code = 0; code < 8; ++code) {
    EXPECT_EQ(decoded(DType::f4e2m1, code), fours[static_cast<std::size_t>(code)]);
    EXPECT_EQ(decoded(DType::f4e2m1, code + 8), -fours[static_cast<std::size_t>(code)]);
  }
}

TEST(Narrow, CodesWithoutANumberAreNaN) {
  for (const auto& [dtype, code] : std::vector<std::pair<DType, int>>{{DType::f8e4m3fn, 0x7f},
                                                                      {DType::f8e4m3fn, 0xff},
                                                                      {DType::f8e4m3fnuz, 0x80},
                                                                      {DType::f8e5m2, 0x7d},
                                                                      {DType::f8e5m2, 0xff},
                                                                      {DType::f8e5m2fnuz, 0x80},
                                                                      {DType::f8e8m0, 0xff}}) {
    EXPECT_TRUE(std::isnan(decoded(dtype, code))) << to_string(dtype) << " " << code;
  }
}

TEST(Narrow, EveryNumberIsItsOwnEncoding) {
  for (int i = kComputedDTypeCount; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (is_small_integer(dtype)) continue;
    for (int code = 0; code < (dtype == DType::f4e2m1 ? 16 : 256); ++code) {
      const float value = decoded(dtype, code);
      if (std::isnan(value) || std::isinf(value)) continue;
      EXPECT_EQ(encoded_one(dtype, value), code) << to_string(dtype) << " " << value;
    }
  }
}

// Between two neighbours the nearer one, the even code in the middle.
TEST(Narrow, FloatsRoundToNearestEven) {
  for (const DType dtype :
       {DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz, DType::f4e2m1}) {
    for (int code = 0; code < (dtype == DType::f4e2m1 ? 7 : 0x7a); ++code) {
      const float low = decoded(dtype, code);
      const float high = decoded(dtype, code + 1);
      const float middle = low + (high - low) / 2;
      EXPECT_EQ(encoded_one(dtype, middle), code % 2 == 0 ? code : code + 1) << middle;
      EXPECT_EQ(encoded_one(dtype, std::nextafter(middle, low)), code) << middle;
      EXPECT_EQ(encoded_one(dtype, std::nextafter(middle, high)), code + 1) << middle;
    }
  }
}

// A f64 just above a middle must not become the middle on its way.
TEST(Narrow, WideNumbersAreRoundedOnce) {
  const std::vector<double> values = {1.0625 + 1e-12, 1.0625, 1.0625 - 1e-12};
  EXPECT_EQ(encoded(DType::f8e4m3fn, values), (std::vector<int>{0x39, 0x38, 0x38}));
  const std::vector<std::int64_t> integers = {17, 18, (std::int64_t{1} << 62) + 1};
  EXPECT_EQ(encoded(DType::f8e4m3fn, integers), (std::vector<int>{0x58, 0x59, 0x7e}));
}

// The tables of ONNX's Cast.
TEST(Narrow, WhatIsTooLargeSaturatesOrNot) {
  const std::vector<float> values = {kInf, -kInf, 1e6F, -1e6F, 0.0F, -0.0F};
  const NarrowRule strict{.saturate = false};
  using Codes = std::vector<int>;
  EXPECT_EQ(encoded(DType::f8e4m3fn, values), (Codes{0x7e, 0xfe, 0x7e, 0xfe, 0, 0x80}));
  EXPECT_EQ(encoded(DType::f8e4m3fn, values, strict), (Codes{0x7f, 0xff, 0x7f, 0xff, 0, 0x80}));
  EXPECT_EQ(encoded(DType::f8e4m3fnuz, values), (Codes{0x7f, 0xff, 0x7f, 0xff, 0, 0}));
  EXPECT_EQ(encoded(DType::f8e4m3fnuz, values, strict), (Codes{0x80, 0x80, 0x80, 0x80, 0, 0}));
  EXPECT_EQ(encoded(DType::f8e5m2, values), (Codes{0x7b, 0xfb, 0x7b, 0xfb, 0, 0x80}));
  EXPECT_EQ(encoded(DType::f8e5m2, values, strict), (Codes{0x7c, 0xfc, 0x7c, 0xfc, 0, 0x80}));
  EXPECT_EQ(encoded(DType::f8e5m2fnuz, values), (Codes{0x7f, 0xff, 0x7f, 0xff, 0, 0}));
  EXPECT_EQ(encoded(DType::f4e2m1, values, strict), (Codes{7, 15, 7, 15, 0, 8}));
  for (const DType dtype :
       {DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz, DType::f8e8m0}) {
    EXPECT_TRUE(std::isnan(decoded(dtype, encoded_one(dtype, kNan)))) << to_string(dtype);
  }
  EXPECT_EQ(encoded_one(DType::f4e2m1, kNan), 8);
}

TEST(Narrow, PowersOfTwoRoundAsTheyAreTold) {
  const std::vector<float> values = {1, 1.25F, 1.5F, 1.75F, 0.124F, 2};
  using Codes = std::vector<int>;
  EXPECT_EQ(encoded(DType::f8e8m0, values), (Codes{127, 128, 128, 128, 124, 128}));
  EXPECT_EQ(encoded(DType::f8e8m0, values, {.round = Round::down}),
            (Codes{127, 127, 127, 127, 123, 128}));
  EXPECT_EQ(encoded(DType::f8e8m0, values, {.round = Round::nearest}),
            (Codes{127, 127, 128, 128, 124, 128}));
  const std::vector<float> ends = {0, kInf, 3e38F, 1e-40F, -1};
  EXPECT_EQ(encoded(DType::f8e8m0, ends), (Codes{0, 254, 254, 0, 255}));
  EXPECT_EQ(encoded(DType::f8e8m0, ends, {.saturate = false}), (Codes{255, 255, 255, 255, 255}));
}

TEST(Narrow, SmallIntegersKeepTheLowBits) {
  using Codes = std::vector<int>;
  const std::vector<float> floats = {-9, -8, -1.9F, 7.9F, 8, 17};
  EXPECT_EQ(encoded(DType::i4, floats), (Codes{7, 0xf8, 0xff, 7, 0xf8, 1}));
  EXPECT_EQ(encoded(DType::u4, floats), (Codes{7, 8, 15, 7, 8, 1}));
  EXPECT_EQ(encoded(DType::i2, std::vector<std::int8_t>{-3, -2, 1, 2}), (Codes{1, 0xfe, 1, 0xfe}));
  EXPECT_EQ(encoded(DType::u2, std::vector<std::int8_t>{-3, -2, 1, 2}), (Codes{1, 2, 1, 2}));
  EXPECT_EQ(decoded(DType::i4, 0x0f), -1) << "bits that aren't used are ignored";
  EXPECT_EQ(decoded(DType::u2, 0xfe), 2);
}

TEST(Narrow, CopiesConvertBothWays) {
  for (int from = 0; from < kDTypeCount; ++from) {
    for (int to = 0; to < kDTypeCount; ++to) {
      const auto source = static_cast<DType>(from);
      const auto target = static_cast<DType>(to);
      if (!is_storage(source) && !is_storage(target)) continue;
      if (target == DType::boolean && source == DType::f8e8m0) continue;  // has no zero
      // One is in all formats; 300 of them are more than one chunk.
      constexpr std::int64_t kCount = 300;
      const std::vector<float> ones(kCount, 1.0F);
      std::vector<std::byte> a(kCount * 8);
      std::vector<std::byte> b(kCount * 8);
      std::vector<float> back(kCount);
      const auto copy = [](const void* in, DType in_type, void* out, DType out_type) {
        copy_strided({static_cast<const std::byte*>(in), in_type, Shape{kCount}, Dims{1}},
                     {static_cast<std::byte*>(out), out_type, Shape{kCount}, Dims{1}});
      };
      copy(ones.data(), DType::f32, a.data(), source);
      copy(a.data(), source, b.data(), target);
      copy(b.data(), target, back.data(), DType::f32);
      EXPECT_EQ(back, ones) << to_string(source) << " " << to_string(target);
    }
  }
}

}  // namespace
}  // namespace tilemesh
