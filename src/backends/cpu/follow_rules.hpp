#pragma once

#include "tilemesh/ops/op.hpp"

namespace tilemesh::cpu {

/// True for ops that take images in any layout and give them in the same one: elementwise ops,
/// pools, and ops that move parts of images.
bool is_follower(const OpDef& op);

/// Whether the op keeps its meaning when the operands of the output's size lie in `layout`. Ops
/// that move parts must not cut a block: each blocked dim is the same in all images, or whole
/// blocks in each.
bool can_follow(const OpCall& call, const Layout& layout);

/// True if the input lies as the output does then; operands that broadcast stay as they are.
bool lies_like_output(const OpCall& call, std::size_t input);

}  // namespace tilemesh::cpu
