#include "convert.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tilemesh/types/dtype_traits.hpp"

namespace tilemesh::detail {
namespace {

template <class T, class S>
std::vector<T> converted(const std::vector<S>& source) {
  std::vector<T> target(source.size());
  convert_run(kDTypeOf<S>, kDTypeOf<T>)(reinterpret_cast<const std::byte*>(source.data()),
                                        reinterpret_cast<std::byte*>(target.data()),
                                        static_cast<std::int64_t>(source.size()));
  return target;
}

/// bool has no vector of its own memory.
template <class S>
std::vector<std::uint8_t> to_bool(const std::vector<S>& source) {
  std::vector<std::uint8_t> target(source.size(), 77);
  convert_run(kDTypeOf<S>, DType::boolean)(reinterpret_cast<const std::byte*>(source.data()),
                                           reinterpret_cast<std::byte*>(target.data()),
                                           static_cast<std::int64_t>(source.size()));
  return target;
}

template <class I>
constexpr I kMin = std::numeric_limits<I>::min();
template <class I>
constexpr I kMax = std::numeric_limits<I>::max();

template <class F>
constexpr F kInf = std::numeric_limits<F>::infinity();
template <class F>
constexpr F kNan = std::numeric_limits<F>::quiet_NaN();

template <class I, class F>
void expect_saturation() {
  const auto low = static_cast<F>(kMin<I>);
  const F above = std::ldexp(F{1}, std::numeric_limits<I>::digits);  // max + 1, exactly
  const F below_above = std::nextafter(above, F{0});
  const std::vector<F> values = {F{0},
                                 F(-0.0),
                                 F(0.99),
                                 F(-0.99),
                                 F(1.5),
                                 low,
                                 above,
                                 kInf<F>,
                                 -kInf<F>,
                                 kNan<F>,
                                 below_above,
                                 above * 2,
                                 low * 2 - 1,
                                 std::numeric_limits<F>::denorm_min(),
                                 std::numeric_limits<F>::max(),
                                 -std::numeric_limits<F>::max()};
  // What lies just below the end is whole, or has a whole part that is the end itself.
  const I last = static_cast<I>(std::trunc(below_above));
  const std::vector<I> expected = {0,       0, 0,    0,       1,       kMin<I>, kMax<I>, kMax<I>,
                                   kMin<I>, 0, last, kMax<I>, kMin<I>, 0,       kMax<I>, kMin<I>};
  EXPECT_EQ((converted<I, F>(values)), expected) << to_string(kDTypeOf<I>);
}

template <class F>
void expect_saturation_of_all() {
  expect_saturation<std::int8_t, F>();
  expect_saturation<std::uint8_t, F>();
  expect_saturation<std::int16_t, F>();
  expect_saturation<std::uint16_t, F>();
  expect_saturation<std::int32_t, F>();
  expect_saturation<std::uint32_t, F>();
  expect_saturation<std::int64_t, F>();
  expect_saturation<std::uint64_t, F>();
}

TEST(Convert, FloatsSaturateAndNanBecomesZero) {
  expect_saturation_of_all<float>();
  expect_saturation_of_all<double>();
  const std::vector<Half> halves = {Half(kInf<float>), Half(kNan<float>), Half(-3.9f),
                                    Half(300.0f)};
  EXPECT_EQ((converted<std::int8_t, Half>(halves)), (std::vector<std::int8_t>{127, 0, -3, 127}));
  EXPECT_EQ((converted<std::uint8_t, Half>(halves)), (std::vector<std::uint8_t>{255, 0, 0, 255}));
}

TEST(Convert, IntegersWrap) {
  const std::vector<std::int64_t> wide = {-1, 256, 257, kMax<std::int64_t>, kMin<std::int64_t>};
  EXPECT_EQ((converted<std::uint8_t, std::int64_t>(wide)),
            (std::vector<std::uint8_t>{255, 0, 1, 255, 0}));
  EXPECT_EQ((converted<std::int32_t, std::int64_t>(wide)),
            (std::vector<std::int32_t>{-1, 256, 257, -1, 0}));
  const std::vector<std::int8_t> narrow = {-1, -128, 127};
  EXPECT_EQ((converted<std::uint64_t, std::int8_t>(narrow)),
            (std::vector<std::uint64_t>{~std::uint64_t{0}, ~std::uint64_t{127}, 127}));
}

TEST(Convert, IntegersNearTheEndOfDoublesStayExact) {
  constexpr std::int64_t kEdge = std::int64_t{1} << 53;
  const std::vector<std::int64_t> values = {kEdge - 1, kEdge + 1, -kEdge - 1, kMax<std::int64_t>};
  EXPECT_EQ(
      (converted<std::uint64_t, std::int64_t>(values)),
      (std::vector<std::uint64_t>{
          static_cast<std::uint64_t>(kEdge - 1), static_cast<std::uint64_t>(kEdge + 1),
          static_cast<std::uint64_t>(-kEdge - 1), static_cast<std::uint64_t>(kMax<std::int64_t>)}));
  EXPECT_EQ((converted<double, std::int64_t>(values))[1], static_cast<double>(kEdge));
  EXPECT_EQ((converted<std::int64_t, std::int64_t>(values)), values);
}

TEST(Convert, ToBoolIsNotZero) {
  EXPECT_EQ(to_bool(std::vector<float>{0.0f, -0.0f, 0.1f, kNan<float>, 1e-45f}),
            (std::vector<std::uint8_t>{0, 0, 1, 1, 1}));
  EXPECT_EQ(to_bool(std::vector<std::int64_t>{0, std::int64_t{1} << 40, -1}),
            (std::vector<std::uint8_t>{0, 1, 1}));
  EXPECT_EQ(to_bool(std::vector<Half>{Half(-0.0f), Half(0.5f), Half(kNan<float>)}),
            (std::vector<std::uint8_t>{0, 1, 1}));
}

TEST(Convert, BoolsAreZeroOrOneWhateverTheirByte) {
  const std::vector<std::uint8_t> bytes = {0, 1, 2, 255};
  std::vector<float> target(4);
  convert_run(DType::boolean, DType::f32)(reinterpret_cast<const std::byte*>(bytes.data()),
                                          reinterpret_cast<std::byte*>(target.data()), 4);
  EXPECT_EQ(target, (std::vector<float>{0, 1, 1, 1}));
}

/// The bfloat16 nearest to a number of up to 64 bits, by comparing its neighbours exactly.
std::uint16_t nearest_bfloat16(long double value) {
  BFloat16 guess(static_cast<float>(value));
  std::uint16_t best = guess.bits;
  const auto distance = [&](std::uint16_t bits) {
    BFloat16 b;
    b.bits = bits;
    return std::fabs(static_cast<long double>(static_cast<float>(b)) - value);
  };
  for (const int step : {-1, 1}) {
    const auto other = static_cast<std::uint16_t>(guess.bits + step);
    const long double d = distance(other) - distance(best);
    if (d < 0 || (d == 0 && other % 2 == 0)) best = other;
  }
  return best;
}

TEST(Convert, WideNumbersAreRoundedOnceTo16Bits) {
  // Just past the middle of two bfloat16, by less than a float (or a double) can tell.
  const std::vector<double> doubles = {1.00390625 + 1e-12, 1.00390625, 1.01171875 - 1e-12,
                                       -1.00390625 - 1e-12};
  const auto to_bfloat = converted<BFloat16, double>(doubles);
  for (std::size_t i = 0; i < doubles.size(); ++i) {
    BFloat16 magnitude(0);
    magnitude.bits = nearest_bfloat16(std::fabs(static_cast<long double>(doubles[i])));
    EXPECT_EQ(to_bfloat[i].bits & 0x7fff, magnitude.bits) << doubles[i];
  }
  EXPECT_EQ((converted<Half, double>({1.00048828125 + 1e-12})[0].bits), 0x3c01);
  EXPECT_EQ((converted<Half, double>({1.00048828125})[0].bits), 0x3c00);
  EXPECT_EQ((converted<Half, double>({1e300})[0].bits), 0x7c00);
  EXPECT_TRUE(std::isnan(static_cast<float>(converted<Half, double>({kNan<double>})[0])));

  std::mt19937_64 random(2);
  std::vector<std::int64_t> integers;
  for (int i = 0; i < 5000; ++i) {
    // A tie at some size, and its neighbours.
    const int shift = static_cast<int>(random() % 55);
    const std::int64_t tie = static_cast<std::int64_t>(128 + random() % 128) * 2 + 1;
    for (const std::int64_t off : {-1, 0, 1})
      integers.push_back((tie << shift >> 1) + off);
  }
  const auto rounded = converted<BFloat16, std::int64_t>(integers);
  for (std::size_t i = 0; i < integers.size(); ++i) {
    if (integers[i] <= 0) continue;
    ASSERT_EQ(rounded[i].bits, nearest_bfloat16(static_cast<long double>(integers[i])))
        << integers[i];
  }
}

TEST(Convert, NegativeAndUnsignedIntegersRoundAlike) {
  const std::vector<std::int64_t> negative = {-(std::int64_t{257} << 40) - 1,
                                              -(std::int64_t{257} << 40)};
  const auto rounded = converted<BFloat16, std::int64_t>(negative);
  EXPECT_EQ(rounded[0].bits, BFloat16(-0x1.02p48f).bits);
  EXPECT_EQ(rounded[1].bits, BFloat16(-0x1p48f).bits);
  const std::vector<std::uint64_t> high = {(std::uint64_t{257} << 55) + 1};
  EXPECT_EQ((converted<BFloat16, std::uint64_t>(high))[0].bits, BFloat16(0x1.02p63f).bits);
}

TEST(Convert, EqualTypesKeepEveryBit) {
  const std::vector<float> values = {std::bit_cast<float>(0x7f800001u), -0.0f};
  const auto same = converted<float, float>(values);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(same[0]), 0x7f800001u);
  EXPECT_TRUE(std::signbit(same[1]));
}

}  // namespace
}  // namespace tilemesh::detail
