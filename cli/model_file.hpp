#pragma once

#include <filesystem>
#include <string>

#include "tilemesh/program/binary.hpp"

namespace tilemesh::cli {

/// Whether a file that a user calls a model is compiled already: by its name, or its first bytes.
/// Throws io.
bool is_binary(const std::filesystem::path& path);

/// The program of that name, the only one if the name is empty. Throws UsageError for a name that
/// the binary doesn't have.
BoundProgram find_program(const Binary& binary, const std::string& name);

}  // namespace tilemesh::cli
