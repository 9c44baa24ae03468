#include "compiler/passes/rounding.hpp"

#include <algorithm>
#include <cmath>

namespace tilemesh::passes {
namespace {

// Of the 2^127 that f32 reaches: sums of products have the rest.
constexpr double kLargestScale = 65536;
// A square root of an attention's depth and the like; there is no gain in others.
constexpr double kLargestMoved = 256;
// f32 keeps digits of 2^-16 beside it, finer than most comparisons look.
constexpr double kLargestJoined = 256;

bool is_within(double factor, double largest) {
  const double size = std::abs(factor);
  return size <= largest && size >= 1 / largest;
}

}  // namespace

bool has_exact_reciprocal(double c) {
  int exponent = 0;
  const double mantissa = std::frexp(c, &exponent);
  return std::isfinite(c) && std::abs(mantissa) == 0.5 && std::isnormal(static_cast<float>(c)) &&
         std::isnormal(static_cast<float>(1 / c));
}

bool is_sign(double factor) {
  return factor == 1 || factor == -1;
}

bool may_scale_weights(double factor) {
  return std::abs(factor) <= kLargestScale;
}

bool may_move_behind(double factor, DType dtype) {
  return dtype != DType::f16 && is_within(factor, kLargestMoved);
}

bool may_join_bias(double shift) {
  return std::abs(shift) <= kLargestJoined;
}

bool are_ordinary(std::span<const float> weights, std::span<const float> products) {
  constexpr float kSmallestLargest = 0x1p-100F;
  float largest = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i])) continue;
    if (!std::isfinite(products[i])) return false;
    largest = std::max(largest, std::abs(products[i]));
  }
  return largest >= kSmallestLargest;
}

}  // namespace tilemesh::passes
