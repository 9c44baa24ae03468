#pragma once

#include "tilemesh/types/layout.hpp"
#include "tilemesh/types/shape.hpp"

namespace tilemesh::cpu {

/// True if a tensor of this shape lies in the same bytes in both layouts: one channel in rows is
/// channels-last, one pixel in rows is in blocks unless the blocks are padded. False if either is
/// opaque.
bool same_memory(const Shape& shape, const Layout& a, const Layout& b);

/// Rows if that is the same memory, else the layout itself.
Layout plain_layout(const Shape& shape, const Layout& layout);

}  // namespace tilemesh::cpu
