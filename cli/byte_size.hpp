#pragma once

#include <cstdint>
#include <string_view>

namespace tilemesh::cli {

/// "4096", "512KiB", "1.5 GiB", "2TiB" in bytes; KiB is 1024. Throws UsageError, naming `what`.
std::int64_t parse_byte_size(std::string_view text, std::string_view what);

}  // namespace tilemesh::cli
