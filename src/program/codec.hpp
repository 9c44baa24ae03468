#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tilemesh/ops/target.hpp"
#include "tilemesh/program/program.hpp"

namespace tilemesh {

/// What the table of a file says: everything but the constants.
struct TableContents {
  std::vector<Program> programs;
  TargetInfo target;
  std::map<std::string, std::string> metadata;
};

/// The FlatBuffers table. Throws unsupported if it would exceed what FlatBuffers can address.
std::vector<std::byte> encode_table(const std::vector<Program>& programs, const TargetInfo& target,
                                    const std::map<std::string, std::string>& metadata);

/// Checks the table's structure and reads it; `table` must be 8-byte aligned. Numbers of
/// enumerations are in their range afterwards, layouts and shapes are well-formed; the rest is for
/// `verify`. Throws invalid_file. Needs memory in proportion to the table's size only.
TableContents decode_table(std::span<const std::byte> table);

}  // namespace tilemesh
