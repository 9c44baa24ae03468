#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tilemesh {

inline constexpr std::uint16_t kFormatMajor = 1;
inline constexpr std::uint16_t kFormatMinor = 2;
inline constexpr std::uint64_t kHeaderBytes = 64;
/// The constants section begins at a multiple of this, so that it can be mapped.
inline constexpr std::uint64_t kSectionAlignment = 4096;

/// The fixed bytes at the start of a file; little-endian.
struct FileHeader {
  std::uint16_t major = kFormatMajor;
  std::uint16_t minor = kFormatMinor;
  std::uint64_t table_bytes = 0;  ///< right after the header
  std::uint64_t table_hash = 0;
  std::uint64_t constants_offset = 0;  ///< from the start of the file
  std::uint64_t constants_bytes = 0;   ///< to the end of the file
};

/// The header of a file with this table and so many bytes of constants.
FileHeader make_header(std::span<const std::byte> table, std::uint64_t constants_bytes);
std::array<std::byte, kHeaderBytes> to_bytes(const FileHeader& header);

/// Reads the header of a file of `file_bytes` from its first bytes, kHeaderBytes of them unless the
/// file has fewer, and checks it against the size. Throws invalid_file with what is broken,
/// unsupported for a newer major version.
FileHeader parse_header(std::span<const std::byte> start, std::uint64_t file_bytes);

/// Checks what lies between header and constants: the table's checksum, and zeros behind it. Throws
/// invalid_file. Gives the table.
std::span<const std::byte> check_table(const FileHeader& header,
                                       std::span<const std::byte> table_and_padding);

/// A checksum that finds damage; no protection against intent.
std::uint64_t hash_bytes(std::span<const std::byte> bytes);

}  // namespace tilemesh
