#include "tilemesh/base/printable.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

namespace tilemesh {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

/// Code points from 0x80 on that a name has no use for: controls, and those of the Unicode category
/// "format" (bidi marks, zero widths, tags), line and paragraph separators, non-characters.
constexpr std::array<Range, 19> kUnseen = {{{0x80, 0x9f},
                                            {0xad, 0xad},
                                            {0x34f, 0x34f},
                                            {0x600, 0x605},
                                            {0x61c, 0x61c},
                                            {0x6dd, 0x6dd},
                                            {0x70f, 0x70f},
                                            {0x115f, 0x1160},
                                            {0x17b4, 0x17b5},
                                            {0x180b, 0x180f},
                                            {0x200b, 0x200f},
                                            {0x2028, 0x202e},
                                            {0x2060, 0x206f},
                                            {0x3164, 0x3164},
                                            {0xfe00, 0xfe0f},
                                            {0xfeff, 0xfeff},
                                            {0xfff0, 0xfffb},
                                            {0x1d173, 0x1d17a},
                                            {0xe0000, 0xe0fff}}};

bool is_unseen(char32_t point) {
  return std::any_of(kUnseen.begin(), kUnseen.end(), [&](const Range& range) {
    return range.first <= point && point <= range.last;
  });
}

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;  ///< 0: no UTF-8
};

/// The code point at the start of a text that isn't empty. Overlong forms, surrogates and numbers
/// past the last code point are no UTF-8.
CodePoint first_of(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) {
    return {lead, 1};
  }
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) {
    return {};
  }
  char32_t value = lead & (0xffU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0U) != 0x80) {
      return {};
    }
    value = value << 6 | (next & 0x3fU);
  }
  constexpr std::array<char32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xd800 && value <= 0xdfff;
  if (value < kSmallest[bytes] || surrogate || value > 0x10ffff) {
    return {};
  }
  return {value, bytes};
}

/// `line_end` is put for an end of line.
std::string escaped(std::string_view text, std::string_view line_end) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = first_of(text);
    const std::string_view bytes = text.substr(0, std::max<std::size_t>(1, point.bytes));
    text.remove_prefix(bytes.size());
    const bool control = point.value < 0x20 || point.value == 0x7f;
    if (bytes[0] == '\n') {
      result += line_end;
    } else if (point.bytes == 0 || control) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes[0]));
    } else if (is_unseen(point.value)) {
      result += fmt::format("\\u{{{:04x}}}", static_cast<std::uint32_t>(point.value));
    } else {
      result += bytes;
    }
  }
  return result;
}

}  // namespace

std::string printable(std::string_view text) {
  return escaped(text, "\n");
}

std::string printable_line(std::string_view text) {
  return escaped(text, "\\x0a");
}

std::string printable_block(std::string_view text) {
  return escaped(text, "\n  ");
}

}  // namespace tilemesh
