#pragma once

#include <filesystem>

#include "arrays.hpp"

namespace tilemesh::cli {

/// Reads all arrays of a NumPy .npz file (numpy.savez and savez_compressed) by their names. Throws
/// io if it can't be read, invalid_file when it is broken, unsupported for elements that read_npy
/// doesn't take and for archives that are encrypted or packed in another way.
NamedArrays read_npz(const std::filesystem::path& path);

}  // namespace tilemesh::cli
