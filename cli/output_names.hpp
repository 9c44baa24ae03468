#pragma once

#include <string>
#include <vector>

namespace tilemesh::cli {

/// A file name, without a suffix, for each of some names that a file chose: no folder, nothing
/// hidden, no option, letters and digits of ASCII, at most 220 bytes, and no two alike, on file
/// systems that fold case either. A name that can stay as it is does.
std::vector<std::string> output_file_names(const std::vector<std::string>& names);

}  // namespace tilemesh::cli
