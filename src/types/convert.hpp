#pragma once

#include <cstddef>
#include <cstdint>

#include "tilemesh/types/dtype.hpp"

namespace tilemesh::detail {

/// Converts `count` elements that lie next to each other; source and target don't overlap, and need
/// no alignment beyond their own element's.
using ConvertRun = void (*)(const std::byte* source, std::byte* target, std::int64_t count);

/// The conversion by the rules of copy_strided. For equal types it copies bytes.
ConvertRun convert_run(DType source, DType target);

/// From a type that is computed in to f32, rounded such that rounding once more to a format of at
/// most half its digits gives what rounding the element itself would give.
ConvertRun odd_float_run(DType source);

}  // namespace tilemesh::detail
