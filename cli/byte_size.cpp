#include "byte_size.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "command.hpp"

namespace tilemesh::cli {
namespace {

constexpr std::array<std::pair<std::string_view, int>, 6> kUnits = {
    {{"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}}};

}  // namespace

std::int64_t parse_byte_size(std::string_view text, std::string_view what) {
  double number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number, std::chars_format::fixed);
  std::string_view unit(end, static_cast<std::size_t>(last - end));
  while (unit.starts_with(' ')) {
    unit.remove_prefix(1);
  }
  for (const auto& [name, shift] : kUnits) {
    if (error != std::errc() || name != unit) {
      continue;
    }
    const double bytes = std::ldexp(number, shift);
    const bool is_size = bytes >= 0 && bytes < 0x1p62 && bytes == std::floor(bytes);
    if (is_size) {
      return static_cast<std::int64_t>(bytes);
    }
  }
  throw UsageError(fmt::format(
      "{} {}: should be a number of bytes, KiB, MiB, GiB or TiB, like 512MiB", what, text));
}

}  // namespace tilemesh::cli
