#include "files.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh::cli {
namespace {

[[noreturn]] void io_error(const std::filesystem::path& path, std::string_view verb, int cause) {
  throw Error(ErrorCode::io, fmt::format("can't {} \"{}\": {}", verb, path.string(),
                                         std::generic_category().message(cause)));
}

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  const File file(std::fopen(path.c_str(), "rb"));
  if (!file) {
    io_error(path, "read", errno);
  }
  std::string bytes;
  std::array<char, 1 << 16> buffer;
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    bytes.append(buffer.data(), count);
  }
  if (std::ferror(file.get()) != 0) {
    io_error(path, "read", errno);
  }
  return bytes;
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  File file(std::fopen(path.c_str(), "wb"));
  if (!file || std::fwrite(bytes.data(), 1, bytes.size(), file.get()) != bytes.size() ||
      std::fclose(file.release()) != 0) {
    io_error(path, "write", errno);
  }
}

}  // namespace tilemesh::cli
