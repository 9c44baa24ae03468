#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tilemesh/program/binary.hpp"

#include "random.hpp"

namespace tilemesh::fuzz {

/// Draws of the parts of a program. What is drawn may be impossible; that is what it is for.
DType random_dtype(Random& random);
Layout random_layout(Random& random, int rank);
Placements random_placements(Random& random, int rank, int axes);
/// With one size changed, a dim more or less, two dims swapped. Throws Error for sizes that no
/// shape has.
Shape changed_shape(Random& random, const Shape& shape);
/// One attribute changed, removed or added; returns what was done.
std::string change_attribute(Random& random, Attributes& attributes);
ExpressionStep random_step(Random& random, std::size_t index, std::size_t operands);

/// Makes what hangs on the shapes fit again: types of the ops' outputs by the table, offsets in the
/// workspace, bytes of constants. What can't be made to fit is left.
void repair(Random& random, Program& program, std::vector<std::byte>& constants);

/// The whole file, with a right header.
std::string file_of(const BinaryContents& contents);
/// The same of a table that may be broken.
std::string file_of(const std::vector<std::byte>& table, const std::vector<std::byte>& constants);

}  // namespace tilemesh::fuzz
