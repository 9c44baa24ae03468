#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tilemesh::cli {

/// All bytes of a file, which may be a pipe. Throws io, naming it and the cause.
std::string read_file(const std::filesystem::path& path);

/// Throws io, naming the file and the cause.
void write_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace tilemesh::cli
