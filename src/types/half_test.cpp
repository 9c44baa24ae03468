#include "tilemesh/types/half.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tilemesh {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// What the bits of a binary16 mean, by its definition.
double half_value(int bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return fraction == 0 ? sign * kInf : std::nan("");
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

/// The nearest of all finite positive halves by search; ties go to the even one, and what is half a
/// unit past the greatest goes to infinity.
int nearest_half(double magnitude) {
  int low = 0;
  int high = 0x7c00;  // stands for 65536 here
  const auto value = [](int bits) {
    return bits == 0x7c00 ? 65536.0 : half_value(bits);
  };
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (value(middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - value(low);
  const double above = value(high) - magnitude;
  if (below != above) return below < above ? low : high;
  return low % 2 == 0 ? low : high;
}

TEST(Half, AllValuesReadAsDefinedAndComeBack) {
  for (int bits = 0; bits < 65536; ++bits) {
    Half half;
    half.bits = static_cast<std::uint16_t>(bits);
    const auto value = static_cast<float>(half);
    const double expected = half_value(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(Half(value)))) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(value), expected) << bits;
      ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
      ASSERT_EQ(Half(value).bits, bits);
    }
  }
}

TEST(Half, RoundsToTheNearestAndTiesToEven) {
  std::vector<float> values;
  for (int bits = 0; bits < 0x7c00; ++bits) {
    // Every half, the middle to the next one, and the floats beside these.
    const double next = bits == 0x7bff ? 65536.0 : half_value(bits + 1);
    for (const double v : {half_value(bits), (half_value(bits) + next) / 2}) {
      const auto f = static_cast<float>(v);
      values.insert(values.end(), {f, std::nextafter(f, 0.0f), std::nextafter(f, kInf)});
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    values.push_back(
        std::ldexp(static_cast<float>(random()), static_cast<int>(random() % 60) - 70));
  }
  for (const float value : values) {
    const int expected = value >= 65536.0f ? 0x7c00 : nearest_half(static_cast<double>(value));
    ASSERT_EQ(Half(value).bits, expected) << value;
    ASSERT_EQ(Half(-value).bits, expected | 0x8000) << value;
  }
}

TEST(Half, InfinityAndNan) {
  EXPECT_EQ(Half(kInf).bits, 0x7c00);
  EXPECT_EQ(Half(-kInf).bits, 0xfc00);
  EXPECT_EQ(Half(65519.0f).bits, 0x7bff);
  EXPECT_EQ(Half(65520.0f).bits, 0x7c00);
  EXPECT_EQ(Half(std::numeric_limits<float>::max()).bits, 0x7c00);
  EXPECT_TRUE(std::isnan(static_cast<float>(Half(std::nanf("")))));
  // A NaN whose payload lies in the cut bits alone must not become infinite.
  EXPECT_TRUE(std::isnan(static_cast<float>(Half(std::bit_cast<float>(0x7f800001u)))));
}

TEST(BFloat16, AllValuesComeBack) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto value = std::bit_cast<float>(bits << 16);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(static_cast<float>(BFloat16(value)))) << bits;
    } else {
      ASSERT_EQ(BFloat16(value).bits, bits);
      ASSERT_EQ(static_cast<float>(BFloat16(value)), value);
    }
  }
}

TEST(BFloat16, RoundsToTheNearestAndTiesToEven) {
  for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) {
    const std::uint32_t word = bits << 16;
    const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(BFloat16(std::bit_cast<float>(word + 0x7fff)).bits, bits);
    ASSERT_EQ(BFloat16(std::bit_cast<float>(word + 0x8000)).bits, even);
    ASSERT_EQ(BFloat16(std::bit_cast<float>(word + 0x8001)).bits, bits + 1);
  }
  EXPECT_EQ(BFloat16(kInf).bits, 0x7f80);
  EXPECT_EQ(BFloat16(-kInf).bits, 0xff80);
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::bit_cast<float>(0x7fffffffu)))));
}

static_assert(static_cast<float>(Half(1.5f)) == 1.5f, "conversions work at compile time");
static_assert(static_cast<float>(BFloat16(-2.0f)) == -2.0f);

}  // namespace
}  // namespace tilemesh
