#include "table.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tilemesh/base/error.hpp"

#include "terminal.hpp"

namespace tilemesh::cli {
namespace {

constexpr std::size_t kLineColumns = 100;
constexpr std::size_t kNarrowest = 12;
constexpr std::size_t kGap = 2;

bool continues_code_point(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

/// The first `columns` columns of a text, in bytes.
std::size_t bytes_of(const std::string& text, std::size_t columns) {
  std::size_t end = 0;
  while (end < text.size() && (columns > 0 || continues_code_point(text[end]))) {
    columns -= continues_code_point(text[end]) ? 0U : 1U;
    ++end;
  }
  return end;
}

/// Cut in the middle: both ends of a name, the first input and the output of an op tell most.
std::string cut(const std::string& text, std::size_t width) {
  const std::size_t full = display_width(text);
  if (full <= width) {
    return text;
  }
  const std::size_t kept = width - 3;
  const std::size_t tail = kept / 2;
  return text.substr(0, bytes_of(text, kept - tail)) + "..." +
         text.substr(bytes_of(text, full - tail));
}

bool is_number(const std::string& text) {
  return text.find_first_of("0123456789") != std::string::npos &&
         text.find_first_not_of("0123456789.,-+%") == std::string::npos;
}

}  // namespace

std::size_t display_width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !continues_code_point(c); }));
}

Table::Table(std::vector<std::string> header) {
  rows_.push_back(std::move(header));
}

void Table::add(std::vector<std::string> cells) {
  TILEMESH_CHECK(cells.size() == rows_.front().size(), "a row of a table has the wrong length");
  for (std::string& cell : cells) {
    cell = printable_line(cell);
  }
  rows_.push_back(std::move(cells));
}

std::string Table::to_string(std::size_t indent) const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  const std::size_t gaps = indent + kGap * (widths.size() - 1);
  const auto total = [&] {
    return std::accumulate(widths.begin(), widths.end(), gaps);
  };
  while (total() > kLineColumns) {
    const auto widest = std::max_element(widths.begin(), widths.end());
    if (*widest <= kNarrowest) {
      break;
    }
    --*widest;
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line(indent, ' ');
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string cell = cut(row[i], widths[i]);
      const std::string padding(widths[i] - display_width(cell), ' ');
      line += is_number(cell) ? padding + cell : cell + padding;
      line += std::string(i + 1 < row.size() ? kGap : 0, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace tilemesh::cli
