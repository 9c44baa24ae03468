#pragma once

#include <optional>
#include <string>

#include "tilemesh/program/binary.hpp"

#include "random.hpp"

namespace tilemesh::fuzz {

/// A program of one op that the table accepts, in other sizes, dtypes and layouts than its case
/// has, with an attribute changed and an epilogue now and then: mostly, the verifier lets it
/// through and kernels meet what nobody thought of. Nothing where the draw is impossible. `text`
/// says what it is.
std::optional<BinaryContents> random_call(Random& random, std::string& text);

}  // namespace tilemesh::fuzz
