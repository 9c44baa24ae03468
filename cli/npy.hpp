#pragma once

#include <filesystem>
#include <span>

#include "arrays.hpp"

namespace tilemesh::cli {

/// Reads a NumPy .npy file (format versions 1 to 3) into row-major order. bf16, which NumPy lacks,
/// is its two-byte void "V2", as the package ml_dtypes saves it. Throws io if it can't be read,
/// invalid_file when it is broken, unsupported for big-endian, object, string, complex and
/// structured elements.
HostArray read_npy(const std::filesystem::path& path);
/// The same from the bytes of a file.
HostArray parse_npy(std::span<const std::byte> file);

/// Writes format version 1. Throws io.
void write_npy(const std::filesystem::path& path, const HostArray& array);

}  // namespace tilemesh::cli
