#pragma once

#include <cstddef>
#include <cstdint>

#include "tilemesh/base/inline_vector.hpp"
#include "tilemesh/types/dtype.hpp"

namespace tilemesh::detail {

/// One loop of a copy: `size` steps that move the source and the target by so many bytes.
struct NestLoop {
  std::int64_t size = 0;
  std::int64_t from = 0;
  std::int64_t to = 0;
};
/// Loops in any order; between them they visit each target element once. Eight dims with six blocks
/// on each side are the most there can be.
using Nest = InlineVector<NestLoop, 20>;

/// Copies the elements that the loops visit, converting them. Source and target don't overlap.
void copy_nest(Nest nest, const std::byte* source, DType source_dtype, std::byte* target,
               DType target_dtype);

/// Sets the elements of the target to zero bytes; `from` isn't looked at.
void zero_nest(Nest nest, std::byte* target, DType dtype);

}  // namespace tilemesh::detail
