#pragma once

#include <optional>
#include <vector>

#include "tilemesh/compiler/graph.hpp"

namespace tilemesh {

/// True if a shard of this shape is the same bytes in both layouts: they differ only in where they
/// name dims of one element.
bool is_same_memory(const Layout& a, const Layout& b, const Shape& shape);

/// The layout in which a transpose's result is its input's bytes; none for layouts with blocks.
std::optional<Layout> transposed_layout(const Layout& layout,
                                        const std::vector<std::int64_t>& order);

/// True if the call's output is its input's bytes as they lie: nothing has to be done. Takes the
/// types of shards.
bool is_free_view(const OpCall& call);

}  // namespace tilemesh
