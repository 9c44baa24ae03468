#pragma once

#include "tilemesh/ops/op.hpp"

namespace tilemesh {

/// Attributes that speak of global shapes speak of the operands' own shapes afterwards: the shape
/// that a reshape, an expand or a resize states, and the ends of dims that a slice keeps whole. The
/// call's attributes are in canonical form, and stay so.
void localise(OpCall& call);

/// Gives absent outputs the types that the op's rule gives them: what is derived from the outputs'
/// sizes may look at any of them. They stay absent.
void type_absent_outputs(OpCall& call);

}  // namespace tilemesh
