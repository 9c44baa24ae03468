#pragma once

#include <cstdint>

namespace tilemesh::cpu::highway {

/// A matrix of f32 rows, `stride` elements apart.
struct RowsOf {
  const float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t stride = 0;
};

/// c[i * c_stride + j] += the dot product of row i of `a` and row j of `b`, `depth` elements each:
/// C += A B^T without packing, at its best for few rows of `a`.
using AddDotProductsFn = void (*)(const RowsOf& a, const RowsOf& b, std::int64_t depth, float* c,
                                  std::int64_t c_stride);
AddDotProductsFn add_dot_products();

}  // namespace tilemesh::cpu::highway
