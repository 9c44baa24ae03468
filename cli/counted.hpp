#pragma once

#include <cstdint>
#include <vector>

#include "arrays.hpp"

namespace tilemesh::cli {

/// The part of an output with room behind its elements (docs/onnx.md) that is compared with an
/// array of another shape: dims that are longer than wanted are cut where one of `counts` says
/// that only the wanted elements are there. As it is if that doesn't lead to the wanted shape.
HostArray counted_part(HostArray array, const Shape& wanted,
                       const std::vector<std::int64_t>& counts);

}  // namespace tilemesh::cli
