#include "header.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/math.hpp"

namespace tilemesh {
namespace {

static_assert(std::endian::native == std::endian::little,
              "files are little-endian and constants are used as they lie in the file");

// As in PNG: the first byte and the line ends show a transfer that took the file for text.
constexpr std::array<unsigned char, 8> kMagic = {0x89, 'T', 'M', 'B', '\r', '\n', 0x1a, '\n'};
constexpr std::size_t kUsedBytes = 48;

template <class T>
T read_at(std::span<const std::byte> file, std::size_t offset) {
  T value{};
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

template <class T>
void write_at(std::array<std::byte, kHeaderBytes>& bytes, std::size_t offset, const T& value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

[[noreturn]] void broken(const std::string& what) {
  throw Error(ErrorCode::invalid_file, what);
}

void check_start(std::span<const std::byte> file) {
  if (file.empty()) {
    broken("the file is empty, not a tilemesh binary");
  }
  const std::size_t known = std::min(file.size(), kMagic.size());
  if (std::memcmp(file.data(), kMagic.data(), known) != 0) {
    broken("not a tilemesh binary: the file begins with other bytes; compile a model into one");
  }
  if (file.size() < kHeaderBytes) {
    broken(fmt::format("the file ends after {} bytes, within its header of {}: it was cut short",
                       file.size(), kHeaderBytes));
  }
}

}  // namespace

std::uint64_t hash_bytes(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0x9e3779b97f4a7c15ULL ^ bytes.size();
  const auto mix = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * 0xff51afd7ed558ccdULL;
    hash ^= hash >> 32;
  };
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    mix(read_at<std::uint64_t>(bytes, at));
  }
  for (; at < bytes.size(); ++at) {
    mix(std::to_integer<std::uint64_t>(bytes[at]) | 0x100);
  }
  return hash;
}

FileHeader make_header(std::span<const std::byte> table, std::uint64_t constants_bytes) {
  FileHeader header;
  header.table_bytes = table.size();
  header.table_hash = hash_bytes(table);
  header.constants_offset = round_up(kHeaderBytes + table.size(), kSectionAlignment);
  header.constants_bytes = constants_bytes;
  return header;
}

std::array<std::byte, kHeaderBytes> to_bytes(const FileHeader& header) {
  std::array<std::byte, kHeaderBytes> bytes{};
  write_at(bytes, 0, kMagic);
  write_at(bytes, 8, header.major);
  write_at(bytes, 10, header.minor);
  write_at(bytes, 16, header.table_bytes);
  write_at(bytes, 24, header.table_hash);
  write_at(bytes, 32, header.constants_offset);
  write_at(bytes, 40, header.constants_bytes);
  return bytes;
}

FileHeader parse_header(std::span<const std::byte> file, std::uint64_t size) {
  check_start(file);
  FileHeader header;
  header.major = read_at<std::uint16_t>(file, 8);
  header.minor = read_at<std::uint16_t>(file, 10);
  if (header.major != kFormatMajor) {
    throw Error(ErrorCode::unsupported,
                fmt::format("the file has format version {}.{}, this build reads {}.x: compile the "
                            "model again, or use a matching build",
                            header.major, header.minor, kFormatMajor));
  }
  header.table_bytes = read_at<std::uint64_t>(file, 16);
  header.table_hash = read_at<std::uint64_t>(file, 24);
  header.constants_offset = read_at<std::uint64_t>(file, 32);
  header.constants_bytes = read_at<std::uint64_t>(file, 40);
  if (read_at<std::uint32_t>(file, 12) != 0 ||
      !all_zero(file.subspan(kUsedBytes, kHeaderBytes - kUsedBytes))) {
    broken("reserved bytes of the header are not zero: the file is damaged");
  }
  // Sizes are compared by subtraction: sums of hostile numbers could wrap around.
  if (header.table_bytes > size - kHeaderBytes) {
    broken(fmt::format("the table should have {} bytes, but the file has {}: it was cut short",
                       header.table_bytes, size));
  }
  const std::uint64_t table_end = kHeaderBytes + header.table_bytes;
  if (header.constants_offset != round_up(table_end, kSectionAlignment)) {
    broken(fmt::format("the constants begin at byte {}, not on the page after the table ({})",
                       header.constants_offset, round_up(table_end, kSectionAlignment)));
  }
  if (header.constants_offset > size || header.constants_bytes != size - header.constants_offset) {
    broken(
        fmt::format("the file should have {} bytes of constants from byte {} on, but has {} "
                    "bytes in all: it was cut short or appended to",
                    header.constants_bytes, header.constants_offset, size));
  }
  return header;
}

std::span<const std::byte> check_table(const FileHeader& header,
                                       std::span<const std::byte> table_and_padding) {
  const std::span<const std::byte> table = table_and_padding.first(header.table_bytes);
  if (!all_zero(table_and_padding.subspan(header.table_bytes))) {
    broken("bytes between table and constants are not zero: the file is damaged");
  }
  if (hash_bytes(table) != header.table_hash) {
    broken("the checksum of the table is wrong: the file is damaged");
  }
  return table;
}

}  // namespace tilemesh
