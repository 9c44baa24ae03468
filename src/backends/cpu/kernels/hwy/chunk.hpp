#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tilemesh/ops/expression.hpp"
#include "tilemesh/types/dtype.hpp"

namespace tilemesh::cpu::highway {

/// One run of an elementwise function over `count` elements that lie next to each other. An input
/// whose bit is set in `uniform` is one element, the same for all. The output may be an input's
/// memory.
struct ChunkArgs {
  std::array<const std::byte*, 3> in{};
  std::byte* out = nullptr;
  std::int64_t count = 0;
  std::uint32_t uniform = 0;
  float alpha = 0;
  float beta = 0;
};
using ChunkFn = void (*)(const ChunkArgs& args);

/// A scalar function on f32.
ChunkFn float_chunk(ScalarFn fn);
/// A scalar function on integers or f64; null if there is none. Functions that may throw
/// (integer division by zero) do so.
ChunkFn typed_chunk(ScalarFn fn, DType dtype);
/// "equal", "less", ... of two operands of `dtype`, or "and", "or", "xor", "not", "is_nan": the
/// result is bool. Null if there is none.
ChunkFn test_chunk(std::string_view op, DType dtype);
/// in[0] ? in[1] : in[2], for values of so many bytes.
ChunkFn select_chunk(std::int64_t element_bytes);
/// Conversion of elements by the rules of copy_strided.
ChunkFn cast_chunk(DType from, DType to);
/// The same between f32 and f16 or bf16 alone; null for other types.
ChunkFn half_chunk(DType from, DType to);

/// Relative cost of one element beside an addition's, to decide on threads.
double chunk_cost(ScalarFn fn);

}  // namespace tilemesh::cpu::highway
