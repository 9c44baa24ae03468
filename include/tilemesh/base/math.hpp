#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "tilemesh/base/error.hpp"

namespace tilemesh {

/// `value` rounded up to a multiple of `multiple`; both non-negative, multiple > 0.
template <std::integral T>
constexpr T round_up(T value, T multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

template <std::integral T>
constexpr T ceil_div(T value, T divisor) {
  return (value + divisor - 1) / divisor;
}

/// `value` as To; throws invalid_argument if it doesn't fit.
template <std::integral To, std::integral From>
constexpr To narrow(From value) {
  if (!std::in_range<To>(value)) [[unlikely]] {
    throw Error(ErrorCode::invalid_argument,
                "the number " + std::to_string(value) + " is out of range here");
  }
  return static_cast<To>(value);
}

/// a * b of sizes; throws invalid_argument on overflow. Both non-negative.
constexpr std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) [[unlikely]] {
    throw Error(ErrorCode::invalid_argument, "a size overflows 64 bits");
  }
  return result;
}

constexpr std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) [[unlikely]] {
    throw Error(ErrorCode::invalid_argument, "a size overflows 64 bits");
  }
  return result;
}

namespace literals {
constexpr std::int64_t operator""_KiB(unsigned long long n) {
  return static_cast<std::int64_t>(n) << 10;
}
constexpr std::int64_t operator""_MiB(unsigned long long n) {
  return static_cast<std::int64_t>(n) << 20;
}
constexpr std::int64_t operator""_GiB(unsigned long long n) {
  return static_cast<std::int64_t>(n) << 30;
}
}  // namespace literals

}  // namespace tilemesh
