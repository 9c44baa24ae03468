#include "npz.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <zlib.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/input_file.hpp"

#include "npy.hpp"

namespace tilemesh::cli {
namespace {

using Bytes = std::vector<std::byte>;

[[noreturn]] void broken(const std::string& what) {
  throw Error(ErrorCode::invalid_file, what);
}

/// Numbers of a ZIP archive, little-endian, with a check of the range.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  T at(std::size_t offset) const {
    T value{};
    std::memcpy(&value, range(offset, sizeof value).data(), sizeof value);
    return value;
  }
  std::span<const std::byte> range(std::size_t offset, std::size_t count) const {
    if (offset > bytes_.size() || count > bytes_.size() - offset) {
      broken("its directory is cut short or damaged");
    }
    return bytes_.subspan(offset, count);
  }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

enum class Method : std::uint16_t { stored = 0, deflated = 8 };

/// A file in the archive.
struct Entry {
  std::string name;
  std::uint16_t flags = 0;
  Method method = Method::stored;
  std::uint32_t crc = 0;
  std::uint64_t packed_bytes = 0;
  std::uint64_t bytes = 0;
  std::uint64_t header_at = 0;
};

constexpr std::uint32_t kFull32 = 0xffffffff;  // the number is in the ZIP64 field
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kEntryBytes = 46;
constexpr std::size_t kLocalBytes = 30;

struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
};

/// Sizes beyond 4 GiB stand in a record of their own, which is found through one before the end.
Directory read_directory64(const InputFile& file, std::uint64_t end_at) {
  constexpr std::uint64_t kLocatorBytes = 20;
  constexpr std::uint64_t kRecordBytes = 56;
  if (end_at < kLocatorBytes) {
    broken("its end is damaged");
  }
  const Bytes locator_bytes = file.bytes(end_at - kLocatorBytes, kLocatorBytes);
  const Reader locator(locator_bytes);
  const auto record_at = locator.at<std::uint64_t>(8);
  if (locator.at<std::uint32_t>(0) != 0x07064b50 || record_at > file.size() ||
      file.size() - record_at < kRecordBytes) {
    broken("its end is damaged");
  }
  const Bytes record_bytes = file.bytes(record_at, kRecordBytes);
  const Reader record(record_bytes);
  if (record.at<std::uint32_t>(0) != 0x06064b50) {
    broken("its end is damaged");
  }
  return {record.at<std::uint64_t>(48), record.at<std::uint64_t>(40), record.at<std::uint64_t>(32)};
}

/// The end record stands before a comment of up to 64 KiB.
Directory find_directory(const InputFile& file) {
  const std::uint64_t most = std::min<std::uint64_t>(file.size(), kEndBytes + 0xffff);
  const std::uint64_t first = file.size() - most;
  const Bytes tail = file.bytes(first, most);
  const Reader reader(tail);
  for (std::size_t at = tail.size() < kEndBytes ? 0 : tail.size() - kEndBytes + 1; at-- > 0;) {
    if (reader.at<std::uint32_t>(at) != 0x06054b50 ||
        reader.at<std::uint16_t>(at + 20) != tail.size() - at - kEndBytes) {
      continue;
    }
    const Directory directory{reader.at<std::uint32_t>(at + 16), reader.at<std::uint32_t>(at + 12),
                              reader.at<std::uint16_t>(at + 10)};
    const bool is_large =
        directory.offset == kFull32 || directory.bytes == kFull32 || directory.count == 0xffff;
    return is_large ? read_directory64(file, first + at) : directory;
  }
  broken("it is no .npz file: it has no directory of a ZIP archive");
}

/// What doesn't fit into 32 bits stands in the extra field, in this order.
void read_large_sizes(Entry& entry, std::span<const std::byte> extra) {
  const Reader reader(extra);
  for (std::size_t at = 0; at + 4 <= extra.size();) {
    const auto id = reader.at<std::uint16_t>(at);
    const auto bytes = reader.at<std::uint16_t>(at + 2);
    const Reader field(reader.range(at + 4, bytes));
    at += 4U + bytes;
    if (id != 1) {
      continue;
    }
    std::size_t next = 0;
    for (std::uint64_t* number : {&entry.bytes, &entry.packed_bytes, &entry.header_at}) {
      if (*number == kFull32) {
        *number = field.at<std::uint64_t>(next);
        next += 8;
      }
    }
  }
}

std::vector<Entry> read_entries(const InputFile& file) {
  const Directory directory = find_directory(file);
  if (directory.offset > file.size() || directory.bytes > file.size() - directory.offset) {
    broken("its directory lies behind its end");
  }
  const Bytes bytes = file.bytes(directory.offset, directory.bytes);
  const Reader reader(bytes);
  std::vector<Entry> entries;
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    if (reader.at<std::uint32_t>(at) != 0x02014b50) {
      broken("its directory is damaged");
    }
    const auto name_bytes = reader.at<std::uint16_t>(at + 28);
    const auto extra_bytes = reader.at<std::uint16_t>(at + 30);
    const auto comment_bytes = reader.at<std::uint16_t>(at + 32);
    const std::span<const std::byte> name = reader.range(at + kEntryBytes, name_bytes);
    Entry entry{{reinterpret_cast<const char*>(name.data()), name.size()},
                reader.at<std::uint16_t>(at + 8),
                static_cast<Method>(reader.at<std::uint16_t>(at + 10)),
                reader.at<std::uint32_t>(at + 16),
                reader.at<std::uint32_t>(at + 20),
                reader.at<std::uint32_t>(at + 24),
                reader.at<std::uint32_t>(at + 42)};
    read_large_sizes(entry, reader.range(at + kEntryBytes + name_bytes, extra_bytes));
    entries.push_back(std::move(entry));
    at += kEntryBytes + name_bytes + extra_bytes + comment_bytes;
  }
  return entries;
}

/// The bytes of an entry as they lie in the archive.
Bytes read_packed(const InputFile& file, const Entry& entry) {
  if (entry.header_at > file.size() || file.size() - entry.header_at < kLocalBytes) {
    broken("it lies behind the archive's end");
  }
  const Bytes local_bytes = file.bytes(entry.header_at, kLocalBytes);
  const Reader local(local_bytes);
  if (local.at<std::uint32_t>(0) != 0x04034b50) {
    broken("its place in the archive is damaged");
  }
  const std::uint64_t at =
      entry.header_at + kLocalBytes + local.at<std::uint16_t>(26) + local.at<std::uint16_t>(28);
  if (at > file.size() || entry.packed_bytes > file.size() - at) {
    broken("it lies behind the archive's end");
  }
  return file.bytes(at, entry.packed_bytes);
}

Bytes inflated(const Bytes& packed, std::uint64_t bytes) {
  // Deflate can't do better: whoever says so wants memory for nothing.
  constexpr std::uint64_t kBestRatio = 1032;
  if (bytes / kBestRatio > packed.size()) {
    broken(fmt::format("its {} bytes can't hold {}", packed.size(), bytes));
  }
  Bytes result(bytes);
  z_stream stream{};
  if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
    throw std::bad_alloc();
  }
  // Counts are 32 bits wide there.
  constexpr std::uint64_t kMost = std::numeric_limits<uInt>::max();
  std::uint64_t read = 0;
  std::uint64_t written = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + read));
    stream.avail_in = static_cast<uInt>(std::min(kMost, packed.size() - read));
    stream.next_out = reinterpret_cast<Bytef*>(result.data() + written);
    stream.avail_out = static_cast<uInt>(std::min(kMost, bytes - written));
    const uInt in = stream.avail_in;
    const uInt out = stream.avail_out;
    status = ::inflate(&stream, Z_NO_FLUSH);
    read += in - stream.avail_in;
    written += out - stream.avail_out;
  }
  ::inflateEnd(&stream);
  if (status != Z_STREAM_END || written != bytes) {
    broken("its packed bytes are damaged");
  }
  return result;
}

HostArray read_array(const InputFile& file, const Entry& entry) {
  if ((entry.flags & 1U) != 0) {
    throw Error(ErrorCode::unsupported, "it is encrypted");
  }
  Bytes bytes = read_packed(file, entry);
  if (entry.method == Method::deflated) {
    bytes = inflated(bytes, entry.bytes);
  } else if (entry.method != Method::stored) {
    throw Error(ErrorCode::unsupported,
                fmt::format("it is packed by method {}: save it with numpy.savez",
                            static_cast<int>(entry.method)));
  }
  const auto crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (bytes.size() != entry.bytes || crc != entry.crc) {
    broken("its checksum or size is wrong: the file is damaged");
  }
  return parse_npy(bytes);
}

/// "x" of "x.npy"
std::string array_name(const Entry& entry) {
  constexpr std::string_view kSuffix = ".npy";
  const bool has_suffix = std::string_view(entry.name).ends_with(kSuffix);
  return entry.name.substr(0, entry.name.size() - (has_suffix ? kSuffix.size() : 0));
}

}  // namespace

NamedArrays read_npz(const std::filesystem::path& path) {
  const InputFile file(path);
  std::string inside;
  try {
    NamedArrays arrays;
    for (const Entry& entry : read_entries(file)) {
      inside = fmt::format(": \"{}\"", entry.name);
      if (!arrays.emplace(array_name(entry), read_array(file, entry)).second) {
        broken("it is there twice");
      }
    }
    return arrays;
  } catch (const Error& error) {
    throw error.code() == ErrorCode::io ? error
                                        : error.in(fmt::format("\"{}\"{}", path.string(), inside));
  }
}

}  // namespace tilemesh::cli
