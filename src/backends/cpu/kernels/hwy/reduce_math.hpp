#pragma once

#include <cstdint>

namespace tilemesh::cpu::highway {

enum class Reduction : std::uint8_t { sum, sum_square, sum_abs, max, min, prod };

/// The two ways to reduce f32: along memory, and across it.
struct ReduceFns {
  /// All of `rows` runs of `count` elements, `stride` elements apart.
  float (*along)(const float* x, std::int64_t rows, std::int64_t stride, std::int64_t count);
  /// sums[i] becomes what element i of all rows reduces to, together with what it was if `more`.
  void (*across)(const float* x, std::int64_t rows, std::int64_t stride, std::int64_t count,
                 float* sums, bool more);
  float (*join)(float a, float b);
  float empty;  ///< of nothing
};
ReduceFns reduce_fns(Reduction reduction);

/// `count` rows of `size` elements, one after the other; y may be x, and `bias` null.
struct LayerNormRows {
  const float* x = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
  std::int64_t count = 0;
  std::int64_t size = 0;
};

/// Normalisations of runs of f32 elements; y may be x.
struct RowFns {
  /// Of `rows` runs of `count` elements, one after the other.
  void (*softmax)(const float* x, float* y, std::int64_t rows, std::int64_t count);
  void (*log_softmax)(const float* x, float* y, std::int64_t rows, std::int64_t count);
  /// y = (x - mean) * inverse * scale + bias, row by row. Gives means and inverses where they
  /// aren't null.
  void (*layer_norm)(const LayerNormRows& rows, float epsilon, float* means, float* inverses);
  /// The same of one run, with one scale and bias for all.
  void (*instance_norm)(const float* x, float scale, float bias, float* y, std::int64_t count,
                        float epsilon);
};
RowFns row_fns();

}  // namespace tilemesh::cpu::highway
