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

}  // namespace tilemesh::detail
