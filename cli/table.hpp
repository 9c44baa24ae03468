#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tilemesh::cli {

/// Aligned columns of text. Numbers are aligned right; a column that would make a line longer than
/// 100 columns is cut in its middle with "...", widest first.
class Table {
 public:
  explicit Table(std::vector<std::string> header);
  /// As many cells as the header has.
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.size() == 1; }
  /// One line a row, each indented.
  std::string to_string(std::size_t indent = 2) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// Columns that a UTF-8 text takes, counting each code point as one.
std::size_t display_width(const std::string& text);

}  // namespace tilemesh::cli
