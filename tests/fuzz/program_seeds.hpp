#pragma once

#include <string>
#include <vector>

#include "tilemesh/program/binary.hpp"

namespace tilemesh::fuzz {

struct ProgramSeed {
  std::string name;
  BinaryContents contents;
};

/// Compiled programs to begin from: each case of the table of ops alone, random programs on one
/// device and on two, and one with a branch.
std::vector<ProgramSeed> program_seeds();

}  // namespace tilemesh::fuzz
