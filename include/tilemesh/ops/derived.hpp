#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tilemesh/ops/op.hpp"

/// What an op's shape rule, its reference and its kernels all derive from canonical attributes:
/// here once, so that no two of them can read an attribute differently.
namespace tilemesh::ops {

/// What slice does along one dim: indices start, start + step, ... before end.
struct Cut {
  std::int64_t start = 0, end = 0, step = 1;
  std::int64_t size() const;
};
/// One cut per dim of a slice's input; a dim that isn't named stays whole.
std::vector<Cut> cuts_of(const OpCall& call);

/// Which dims of its input a reduction reduces.
std::vector<bool> reduced_dims(const OpCall& call);

/// Where an index that may lie outside of [0, size) reads from in a mode of pad; -1: nowhere. Size
/// must not be 0 but for the mode "constant".
std::int64_t padded_from(std::string_view mode, std::int64_t i, std::int64_t size);

}  // namespace tilemesh::ops
