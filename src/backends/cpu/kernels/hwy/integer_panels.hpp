#pragma once

#include <cstddef>
#include <cstdint>

namespace tilemesh::cpu::highway {

/// The parts of a product of integers. Operands are differences from zero points in 16 bits, so
/// that pairs of products fit in 32 bits on every processor; sums wrap at 32 bits.
///
/// A row of `a` is `depth` differences, an even number of them. A panel holds `columns` columns of
/// the second operand, two rows of it interleaved: [depth / 2][columns][2].
struct IntegerPanels {
  std::int64_t columns = 1;  ///< of a panel

  /// c[i * c_stride + j] (+)= the product of row i of `a` and column j < `count` of the panel.
  void (*multiply)(const std::int16_t* a, std::int64_t rows, std::int64_t a_stride,
                   const std::int16_t* panel, std::int64_t depth, std::int32_t* c,
                   std::int64_t c_stride, std::int64_t count, bool accumulate) = nullptr;
  /// to[i] = from[i] - zero, of u8 or i8.
  void (*widen)(const std::byte* from, bool is_signed, std::int32_t zero, std::int16_t* to,
                std::int64_t count) = nullptr;
  /// Two rows of a panel of which `count` columns are there; the others become zero.
  void (*interleave)(const std::int16_t* even, const std::int16_t* odd, std::int64_t count,
                     std::int16_t* to) = nullptr;
  /// sums[i] += (from[i * stride] - zero) * weight
  void (*add_scaled)(const std::byte* from, bool is_signed, std::int64_t stride, std::int32_t zero,
                     std::int32_t weight, std::int32_t* sums, std::int64_t count) = nullptr;
};
/// Those of the best instruction set.
IntegerPanels integer_panels();

}  // namespace tilemesh::cpu::highway
