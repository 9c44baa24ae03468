#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace tilemesh::cli {

/// All bytes of a regular file. Throws io, naming it and the cause, and invalid_file for more than
/// `most` bytes.
std::string read_file(const std::filesystem::path& path, std::uint64_t most);

/// Writes a file as tilemesh::write_file does: whole, or not at all. Throws io.
void write_file(const std::filesystem::path& path, std::string_view bytes);

/// Makes a folder and those above it. Throws io.
void make_folder(const std::filesystem::path& path);

}  // namespace tilemesh::cli
