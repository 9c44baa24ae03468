#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "tilemesh/types/layout.hpp"

namespace tilemesh {
namespace {

constexpr std::string_view kOpaqueStart = "opaque(";

char letter(int dim, bool blocked) {
  return static_cast<char>((blocked ? 'A' : 'a') + dim);
}

/// Reads one layout in the notation of to_string; every refusal names the text and its fault.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), rest_(text) {}

  Layout parse() {
    if (text_ == "rows") return Layout::rows();
    if (text_.starts_with(kOpaqueStart)) return parse_opaque();
    const std::string_view outer = take_outer_letters();
    const Layout::Order order = parse_order(outer);
    const Layout::Blocks blocks = parse_blocks(outer);
    for (const char c : outer) {
      const bool upper = c < 'a';
      const int dim = c - (upper ? 'A' : 'a');
      const bool blocked = std::any_of(blocks.begin(), blocks.end(),
                                       [&](const Layout::Block& b) { return b.dim == dim; });
      if (upper != blocked) {
        refuse(blocked ? fmt::format("dim \"{}\" has a block: write it as a capital", c)
                       : fmt::format("dim \"{}\" is a capital but has no block", c));
      }
    }
    return {order, blocks};
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("layout \"{}\": {}; examples are rows, acdb, aBcd16b", text_, reason));
  }

  std::string_view take_outer_letters() {
    const auto is_digit = [](char c) {
      return c >= '0' && c <= '9';
    };
    const auto end = std::find_if(rest_.begin(), rest_.end(), is_digit);
    const auto count = static_cast<std::size_t>(end - rest_.begin());
    const std::string_view outer = rest_.substr(0, count);
    rest_.remove_prefix(count);
    if (outer.empty()) refuse("has no dims");
    if (outer.size() > static_cast<std::size_t>(kMaxRank)) {
      refuse(fmt::format("has {} dims, at most {} are supported", outer.size(), kMaxRank));
    }
    return outer;
  }

  int dim_of(char c, std::size_t rank) const {
    const int dim = c >= 'a' ? c - 'a' : c - 'A';
    if (dim < 0 || dim >= static_cast<int>(rank)) {
      refuse(fmt::format("\"{}\" is no dim of {}", c, rank));
    }
    return dim;
  }

  Layout::Order parse_order(std::string_view outer) const {
    Layout::Order order;
    unsigned seen = 0;
    for (const char c : outer) {
      const int dim = dim_of(c, outer.size());
      if ((seen & (1u << dim)) != 0) refuse(fmt::format("dim \"{}\" comes twice", c));
      seen |= 1u << dim;
      order.push_back(static_cast<std::int8_t>(dim));
    }
    return order;
  }

  Layout::Blocks parse_blocks(std::string_view outer) {
    Layout::Blocks blocks;
    while (!rest_.empty()) {
      std::int32_t size = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error != std::errc() || size < 2) {
        refuse(fmt::format("no block size of 2 or more at \"{}\"", rest_));
      }
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      if (rest_.empty() || rest_.front() < 'a') refuse("a block ends without its small letter");
      if (blocks.size() == kMaxBlocks) {
        refuse(fmt::format("has more than {} blocks", kMaxBlocks));
      }
      blocks.push_back({dim_of(rest_.front(), outer.size()), size});
      rest_.remove_prefix(1);
    }
    return blocks;
  }

  /// "opaque(backend:tag:bytes)"; the tag may have colons, the backend not.
  Layout parse_opaque() const {
    std::string_view inside = text_.substr(kOpaqueStart.size());
    const std::size_t first = inside.find(':');
    const std::size_t last = inside.rfind(':');
    if (!inside.ends_with(')') || first == std::string_view::npos || first == last) {
      refuse("an opaque layout is written opaque(backend:tag:bytes)");
    }
    inside.remove_suffix(1);
    const std::string_view number = inside.substr(last + 1);
    std::int64_t bytes = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), bytes);
    if (error != std::errc() || end != number.data() + number.size()) {
      refuse(fmt::format("\"{}\" is no number of bytes", number));
    }
    return Layout::opaque({std::string(inside.substr(0, first)),
                           std::string(inside.substr(first + 1, last - first - 1)), bytes});
  }

  static constexpr std::size_t kMaxBlocks = 6;

  std::string_view text_;
  std::string_view rest_;
};

}  // namespace

std::string Layout::to_string(int rank) const {
  if (opaque_) {
    return fmt::format("{}{}:{}:{})", kOpaqueStart, opaque_->backend, opaque_->tag, opaque_->bytes);
  }
  if (is_rows()) return "rows";
  std::string text;
  for (const std::int8_t dim : order(rank))
    text += letter(dim, block_of(dim) != 1);
  for (const Block& block : blocks_)
    text += fmt::format("{}{}", block.size, letter(block.dim, false));
  return text;
}

Layout Layout::parse(std::string_view text) {
  return Parser(text).parse();
}

}  // namespace tilemesh
