#pragma once

#include <cstdint>

namespace tilemesh {

/// IEEE 754 binary16 as storage; arithmetic goes through float. Converts with round to nearest
/// even.
struct Half {
  std::uint16_t bits = 0;

  Half() = default;
  explicit Half(float value);
  explicit operator float() const;
};

/// bfloat16 as storage; arithmetic goes through float. Converts with round to nearest even.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value);
  explicit operator float() const;
};

}  // namespace tilemesh
