#pragma once

#include <cstdint>

namespace tilemesh::cpu::highway {

/// Where one output pixel lies between two input pixels: x[low] + weight * (x[high] - x[low]).
struct Tap {
  std::int32_t low = 0;
  std::int32_t high = 0;
  float weight = 0;
};

/// Interpolation of f32 rows whose pixels are `pixel` elements each.
struct ResizeFns {
  void (*along_row)(const float* row, const Tap* taps, std::int64_t count, std::int64_t pixel,
                    float* out);
  /// out = low + weight * (high - low), element by element.
  void (*between_rows)(const float* low, const float* high, float weight, std::int64_t count,
                       float* out);
};
ResizeFns resize_fns();

}  // namespace tilemesh::cpu::highway
