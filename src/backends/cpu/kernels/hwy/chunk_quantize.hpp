#pragma once

#include "chunk.hpp"

namespace tilemesh::cpu::highway {

/// in: x (f32), scale (f32), zero point (of `dtype`, or none): the integers of `dtype` that stand
/// for x, as the op `quantize` says. Null for a dtype that isn't quantized to.
ChunkFn quantize_chunk(DType dtype);
/// in: x (of `dtype`, i32 too), scale (f32), zero point (of `dtype`, or none): the reals in f32.
ChunkFn dequantize_chunk(DType dtype);
/// in: x (i32), multiplier (f32), zero point (of `dtype`, or none), as the op `requantize` says.
ChunkFn requantize_chunk(DType dtype);
/// in: x (of `dtype`), scale (f32), rest (f32): x * scale + rest in f32, rounded once.
ChunkFn multiply_add_chunk(DType dtype);
/// in: x (of `dtype`), zero point (of `dtype`, or none): their difference in f32.
ChunkFn difference_chunk(DType dtype);
/// in: x (f32): the nearest integer of `dtype`.
ChunkFn round_chunk(DType dtype);

}  // namespace tilemesh::cpu::highway
