#pragma once

#include <cstdint>
#include <string>

#include "tilemesh/ops/op.hpp"

#include "integer_panels.hpp"

/// What kernels of matmul_integer and conv_integer share: how they read their operands.
namespace tilemesh::cpu::highway {

/// So many rows of a panel are made at a time: they stay in the second-level cache.
inline constexpr std::int64_t kPanelDepth = 1024;
inline constexpr double kNanosecondsPerIntegerProduct = 0.02;

inline std::int64_t even(std::int64_t count) {
  return count + count % 2;
}

/// Zero points of rows: none, one for all, or one for each of `period` rows, again and again.
struct RowZeros {
  std::size_t place = 0;  ///< the operand
  bool present = false;
  bool is_signed = false;
  std::int64_t period = 1;

  std::int32_t at(std::byte* const* operands, std::int64_t row) const {
    if (!present) return 0;
    const std::byte* zero = operands[place] + row % period;
    return is_signed ? std::int32_t{*reinterpret_cast<const std::int8_t*>(zero)}
                     : std::int32_t{*reinterpret_cast<const std::uint8_t*>(zero)};
  }
};

/// Those of operand `operand`, which has them as input `operand` + 2.
RowZeros row_zeros(const OpCall& call, std::size_t operand);

/// Empty, or why the folder's integer products don't take a call: layouts, an epilogue.
std::string why_no_integer_product(const OpCall& call);

/// Rows of `depth` elements of u8 or i8, less their zero points, each filled up to an even length.
void widen_rows(const IntegerPanels& fns, const std::byte* from, bool is_signed,
                const RowZeros& zeros, std::byte* const* operands, std::int64_t rows,
                std::int64_t depth, std::int16_t* to);

}  // namespace tilemesh::cpu::highway
