#include "model_file.hpp"

#include <array>
#include <cstring>
#include <string_view>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/input_file.hpp"

#include "command.hpp"

namespace tilemesh::cli {

bool is_binary(const std::filesystem::path& path) {
  constexpr std::string_view kMagic = "\x89TMB";
  if (path.extension() == ".tmb") {
    return true;
  }
  const InputFile file(path);
  std::array<std::byte, kMagic.size()> start{};
  if (file.size() < start.size()) {
    return false;
  }
  file.read(0, start);
  return std::memcmp(start.data(), kMagic.data(), start.size()) == 0;
}

BoundProgram find_program(const Binary& binary, const std::string& name) {
  try {
    return binary.program(name);
  } catch (const Error& error) {
    if (name.empty() || error.code() != ErrorCode::not_found) {
      throw;
    }
    throw UsageError(error.what());
  }
}

}  // namespace tilemesh::cli
