#include "files.hpp"

#include <array>
#include <span>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/input_file.hpp"
#include "tilemesh/base/output_file.hpp"

namespace tilemesh::cli {

std::string read_file(const std::filesystem::path& path, std::uint64_t most) {
  return InputFile(path).text(most);
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  const std::array pieces = {std::as_bytes(std::span(bytes.data(), bytes.size()))};
  tilemesh::write_file(path, pieces);
}

void make_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    throw Error(ErrorCode::io,
                fmt::format("can't make the folder \"{}\": {}", path.string(), error.message()));
  }
}

}  // namespace tilemesh::cli
