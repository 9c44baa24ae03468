#include "tilemesh/types/narrow.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "tilemesh/base/error.hpp"

#include "convert.hpp"
#include "narrow_convert.hpp"

namespace tilemesh {
namespace {

/// A float format of a sign, an exponent and a fraction. Codes of positive numbers rise with them.
struct FloatFormat {
  DType dtype;
  int exponent_bits;
  int fraction_bits;
  int bias;
  int largest;        ///< the code of the largest number
  bool has_infinity;  ///< it comes behind the largest number
  bool signed_zero;   ///< if not, the one NaN is where -0 would be
  int nan;            ///< -1: there is none
};

constexpr std::array<FloatFormat, 5> kFormats = {{
    {DType::f8e4m3fn, 4, 3, 7, 0x7e, false, true, 0x7f},
    {DType::f8e4m3fnuz, 4, 3, 8, 0x7f, false, false, 0x80},
    {DType::f8e5m2, 5, 2, 15, 0x7b, true, true, 0x7e},
    {DType::f8e5m2fnuz, 5, 2, 16, 0x7f, false, false, 0x80},
    {DType::f4e2m1, 2, 1, 1, 0x7, false, true, -1},
}};

const FloatFormat& format_of(DType dtype) {
  for (const FloatFormat& format : kFormats) {
    if (format.dtype == dtype) return format;
  }
  TILEMESH_CHECK(false, "not a small float format");
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int kScaleBias = 127;  // of f8e8m0, and of f32
constexpr int kScaleNan = 0xff;

int sign_bit(const FloatFormat& format) {
  return 1 << (format.exponent_bits + format.fraction_bits);
}

float decode(const FloatFormat& format, int stored) {
  const int sign = sign_bit(format);
  const int code = stored & (2 * sign - 1);
  const int magnitude = code & (sign - 1);
  if (magnitude > format.largest || (!format.signed_zero && code == format.nan)) {
    const bool infinite = format.has_infinity && magnitude == format.largest + 1;
    if (!infinite) return kNan;
  }
  const int exponent = magnitude >> format.fraction_bits;
  const int fraction = magnitude & ((1 << format.fraction_bits) - 1);
  const int lowest = 1 - format.bias - format.fraction_bits;
  float value = 0;
  if (magnitude > format.largest) {
    value = std::numeric_limits<float>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), lowest);
  } else {
    const int with_leading_one = fraction + (1 << format.fraction_bits);
    value = std::ldexp(static_cast<float>(with_leading_one), lowest + exponent - 1);
  }
  return (code & sign) != 0 ? -value : value;
}

/// The code of a magnitude rounded to nearest even; above the largest for what is too large.
int round_magnitude(const FloatFormat& format, std::int32_t magnitude) {
  if (magnitude >= 0x7f800000) return format.largest + 1;
  const int shift = 23 - format.fraction_bits;
  if (magnitude >= (128 - format.bias) << 23) {
    const std::int32_t odd = (magnitude >> shift) & 1;
    return (magnitude - ((127 - format.bias) << 23) + (1 << (shift - 1)) - 1 + odd) >> shift;
  }
  const float units = std::ldexp(1.0F, format.bias - 1 + format.fraction_bits);
  return static_cast<int>(std::nearbyint(std::bit_cast<float>(magnitude) * units));
}

int encode(const FloatFormat& format, float value, bool saturate) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const auto magnitude = static_cast<std::int32_t>(word & 0x7fffffffu);
  const int sign = (word >> 31) != 0 ? sign_bit(format) : 0;
  if (magnitude > 0x7f800000) {
    if (format.nan < 0) return sign_bit(format);
    return format.signed_zero ? format.nan | sign : format.nan;
  }
  int code = round_magnitude(format, magnitude);
  if (code > format.largest) {
    const bool stays = saturate || format.nan < 0;
    if (!stays && !format.signed_zero) return format.nan;
    code = stays ? format.largest : format.has_infinity ? format.largest + 1 : format.nan;
  }
  return code == 0 && !format.signed_zero ? 0 : code | sign;
}

int encode_scale(float value, const NarrowRule& rule) {
  constexpr int kLargest = kScaleNan - 1;
  if (std::isnan(value) || value < 0) return kScaleNan;
  if (std::isinf(value)) return rule.saturate ? kLargest : kScaleNan;
  if (value == 0) return rule.saturate ? 0 : kScaleNan;
  int exponent = 0;
  const float half = std::frexp(value, &exponent);  // in [0.5, 1)
  int code = exponent - 1 + kScaleBias;
  const bool rises = rule.round == NarrowRule::Round::up        ? half > 0.5F
                     : rule.round == NarrowRule::Round::nearest ? half >= 0.75F
                                                                : false;
  if (rises) ++code;
  if (code < 0 || code > kLargest) return rule.saturate ? std::clamp(code, 0, kLargest) : kScaleNan;
  return code;
}

float decode_any(DType dtype, int stored) {
  const int low = stored & (detail::narrow_integer_bits(dtype) == 2 ? 3 : 15);
  switch (dtype) {
    case DType::f8e8m0: return stored == kScaleNan ? kNan : std::ldexp(1.0F, stored - kScaleBias);
    case DType::i4: return static_cast<float>(low >= 8 ? low - 16 : low);
    case DType::i2: return static_cast<float>(low >= 2 ? low - 4 : low);
    case DType::u4:
    case DType::u2: return static_cast<float>(low);
    default: return decode(format_of(dtype), stored);
  }
}

using Table = std::array<float, 256>;

const Table& table_of(DType dtype) {
  TILEMESH_CHECK(is_storage(dtype) && static_cast<int>(dtype) < kDTypeCount, "no storage format");
  static const auto tables = [] {
    std::array<Table, kDTypeCount - kComputedDTypeCount> made{};
    for (std::size_t i = 0; i < made.size(); ++i) {
      for (std::size_t byte = 0; byte < 256; ++byte)
        made[i][byte] =
            decode_any(static_cast<DType>(i + kComputedDTypeCount), static_cast<int>(byte));
    }
    return made;
  }();
  return tables[static_cast<std::size_t>(dtype) - kComputedDTypeCount];
}

}  // namespace

float decode_narrow(DType dtype, std::byte stored) {
  return table_of(dtype)[std::to_integer<std::size_t>(stored)];
}

void encode_narrow(DType dtype, std::span<const float> values, std::byte* target,
                   const NarrowRule& rule) {
  if (dtype == DType::f8e8m0) {
    for (const float value : values)
      *target++ = static_cast<std::byte>(encode_scale(value, rule));
    return;
  }
  const FloatFormat& format = format_of(dtype);
  for (const float value : values)
    *target++ = static_cast<std::byte>(encode(format, value, rule.saturate));
}

namespace detail {

int narrow_integer_bits(DType dtype) {
  if (dtype == DType::i4 || dtype == DType::u4) return 4;
  return dtype == DType::i2 || dtype == DType::u2 ? 2 : 0;
}

void decode_narrow_run(DType dtype, const std::byte* source, float* target, std::int64_t count) {
  const Table& table = table_of(dtype);
  for (std::int64_t i = 0; i < count; ++i)
    target[i] = table[std::to_integer<std::size_t>(source[i])];
}

void keep_low_bits(DType dtype, const std::int64_t* source, std::byte* target, std::int64_t count) {
  const int dropped = 64 - narrow_integer_bits(dtype);
  const bool is_signed = dtype == DType::i4 || dtype == DType::i2;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t high = static_cast<std::uint64_t>(source[i]) << dropped;
    target[i] = is_signed ? static_cast<std::byte>(static_cast<std::int64_t>(high) >> dropped)
                          : static_cast<std::byte>(high >> dropped);
  }
}

}  // namespace detail
}  // namespace tilemesh
