#pragma once

#include <cstddef>
#include <cstdint>

#include "tilemesh/types/dtype.hpp"
#include "tilemesh/types/narrow.hpp"

#include "convert.hpp"

namespace tilemesh::detail {

/// 4 or 2 for the integer storage formats, 0 for others.
int narrow_integer_bits(DType dtype);
void decode_narrow_run(DType dtype, const std::byte* source, float* target, std::int64_t count);
/// The low bits of each integer in the form that `dtype` is stored in.
void keep_low_bits(DType dtype, const std::int64_t* source, std::byte* target, std::int64_t count);

/// convert_run where source or target is a storage format.
ConvertRun narrow_run(DType source, DType target);

}  // namespace tilemesh::detail
