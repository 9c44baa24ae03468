#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tilemesh/tilemesh.hpp"

namespace tilemesh::testing {

/// A program that nobody wrote, what it reads, and how somebody might cut it.
struct RandomProgram {
  Graph graph;
  std::map<std::string, Tensor> inputs;
  std::vector<ShardRule> rules;  ///< dims of inputs; each input is cut once along an axis
  std::string text;              ///< for messages
};

/// About `op_count` ops from the whole table on small shapes, primes and ones among them. Equal
/// arguments give equal programs.
RandomProgram random_program(std::uint32_t seed, int op_count, const MeshShape& mesh);

}  // namespace tilemesh::testing
