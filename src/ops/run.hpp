#pragma once

#include "support.hpp"

namespace tilemesh::ops {

/// Applies the call's chain to row-major operands: `own` is the op's result (null for `map`), all
/// of `inputs` are the call's, and `output` may be `own`.
void apply_chain(const OpCall& call, const std::byte* own, Inputs inputs, std::byte* output);

}  // namespace tilemesh::ops
