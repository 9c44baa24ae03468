#include "tilemesh/base/error.hpp"

#include <array>
#include <cstddef>

#include <fmt/format.h>

namespace tilemesh {

std::string_view to_string(ErrorCode code) {
  static constexpr std::array<std::string_view, 12> kNames = {
      "invalid_argument", "not_found",     "io",          "invalid_file",         "unsupported",
      "mismatch",         "out_of_memory", "deallocated", "conversion_forbidden", "kernel_failed",
      "timeout",          "internal"};
  return kNames.at(static_cast<std::size_t>(code));
}

namespace {

/// what() ends at a zero byte, so one in a name would hide the rest.
std::string without_zeros(std::string message) {
  for (std::size_t at = message.find('\0'); at != std::string::npos; at = message.find('\0', at)) {
    message.replace(at, 1, "\\x00");
  }
  return message;
}

}  // namespace

Error::Error(ErrorCode code, const std::string& message)
    : std::runtime_error(without_zeros(message)), code_(code) {}

Error Error::in(std::string_view context) const {
  return {code_, fmt::format("{}: {}", context, what())};
}

namespace detail {

void check_failed(const char* condition, std::string_view message, const char* file, int line) {
  throw Error(ErrorCode::internal,
              fmt::format("{} ({} is false at {}:{}); this is a bug in tilemesh", message,
                          condition, file, line));
}

}  // namespace detail

}  // namespace tilemesh
