#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tilemesh/types/dtype.hpp"

namespace tilemesh {

/// How a number becomes one of a storage format. Integers of 2 and 4 bits keep the low bits of what
/// truncation gives, whatever is said here.
struct NarrowRule {
  /// How f8e8m0 rounds to a power of two: away from zero, towards it, or to the nearest (a tie goes
  /// up). The other floats round to nearest even.
  enum class Round : std::uint8_t { up, down, nearest };

  /// What is too large becomes the largest number (of f8e8m0 also: too small, the smallest); if
  /// not, infinity where the format has one, else NaN. f4e2m1 has neither and always saturates.
  bool saturate = true;
  Round round = Round::up;
};

/// The value of a stored byte of `dtype`, exactly; bits that the format doesn't use are ignored.
float decode_narrow(DType dtype, std::byte stored);

/// Encodes floats as `dtype`, a storage format that is a float. NaN stays NaN, and becomes -0 in
/// f4e2m1; -0 becomes 0 where there is none; f8e8m0 makes NaN of what is below zero.
void encode_narrow(DType dtype, std::span<const float> values, std::byte* target,
                   const NarrowRule& rule = {});

/// Converts `count` elements that lie next to each other to a storage format by another rule than
/// the default, which is copy_strided's. For integer formats it is the same.
void convert_to_narrow(const std::byte* source, DType source_dtype, std::byte* target,
                       DType target_dtype, std::int64_t count, const NarrowRule& rule);

}  // namespace tilemesh
