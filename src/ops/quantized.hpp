#pragma once

#include <cstdint>
#include <string_view>

#include "tilemesh/types/dtype.hpp"

/// What the ops on integers that stand for reals have in common.
namespace tilemesh::ops {

/// Throws invalid_argument unless it is u8, i8, u16 or i16; `what` has the dtype.
void require_quantized(DType dtype, std::string_view what);

/// Rounds half to even, moves by the zero point, and saturates. NaN becomes the lowest integer, as
/// in onnxruntime.
std::int64_t quantized(float value, std::int64_t zero_point, DType dtype);

}  // namespace tilemesh::ops
