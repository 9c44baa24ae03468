#pragma once

#include <bit>
#include <cstdint>

namespace tilemesh {

/// IEEE 754 binary16 as storage; arithmetic goes through float. Converts with round to nearest
/// even; NaN stays NaN, what is too large becomes infinite. Compares by value of the bits.
struct Half {
  std::uint16_t bits = 0;

  Half() = default;
  explicit constexpr Half(float value);
  explicit constexpr operator float() const;
  friend constexpr bool operator==(const Half&, const Half&) = default;
};

/// bfloat16 as storage; arithmetic goes through float. Converts with round to nearest even; NaN
/// stays NaN. Compares by value of the bits.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  explicit constexpr BFloat16(float value);
  explicit constexpr operator float() const;
  friend constexpr bool operator==(const BFloat16&, const BFloat16&) = default;
};

// The conversions select instead of branching, and compare signed, so that compilers vectorize
// loops of them for every x86.

constexpr Half::Half(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::int32_t>((word >> 16) & 0x8000u);
  const auto magnitude = static_cast<std::int32_t>(word & 0x7fffffffu);
  // The exponent's bias is 127 there and 15 here; the carry of rounding may reach infinity.
  const std::int32_t normal = (magnitude - (112 << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  // Near 0.5 the unit in the last place of a float is half's smallest number, 2^-24.
  const std::int32_t small =
      std::bit_cast<std::int32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
  const std::int32_t infinite = 0x7c00;
  const std::int32_t nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  std::int32_t result = magnitude < 0x38800000 ? small : normal;  // below 2^-14
  result = magnitude >= 0x47800000 ? infinite : result;           // 2^16 and above
  result = magnitude > 0x7f800000 ? nan : result;
  bits = static_cast<std::uint16_t>(result | sign);
}

constexpr Half::operator float() const {
  const std::int32_t sign = (bits & 0x8000) << 16;
  const std::int32_t magnitude = bits & 0x7fff;
  const std::int32_t bias = magnitude >= 0x7c00 ? 224 << 23 : 112 << 23;  // infinite, NaN: 255
  const std::int32_t normal = (magnitude << 13) + bias;
  const auto small = std::bit_cast<std::int32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  return std::bit_cast<float>((magnitude < 0x400 ? small : normal) | sign);
}

constexpr BFloat16::BFloat16(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (word >> 16) | 0x40u;
  const bool is_nan = static_cast<std::int32_t>(word & 0x7fffffffu) > 0x7f800000;
  bits = static_cast<std::uint16_t>(is_nan ? nan : rounded);
}

constexpr BFloat16::operator float() const {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace tilemesh
