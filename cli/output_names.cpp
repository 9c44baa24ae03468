#include "output_names.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string_view>

#include <fmt/format.h>

namespace tilemesh::cli {
namespace {

constexpr std::size_t kLongest = 200;  // of 255, with room for a number and a suffix

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

std::string cleaned(std::string_view name) {
  std::string result(name.substr(0, kLongest));
  std::replace_if(
      result.begin(), result.end(), [](char c) { return !is_plain(c); }, '_');
  if (result.empty()) {
    return "output";
  }
  if (result[0] == '.' || result[0] == '-') {
    result[0] = '_';
  }
  return result;
}

std::string folded(std::string text) {
  for (char& c : text) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return text;
}

}  // namespace

std::vector<std::string> output_file_names(const std::vector<std::string>& names) {
  std::vector<std::string> files(names.size());
  std::set<std::string> taken;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string name = cleaned(names[i]);
    if (name == names[i] && taken.insert(folded(name)).second) {
      files[i] = name;
    }
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string name = cleaned(names[i]);
    std::string file = name;
    for (std::size_t number = i; files[i].empty(); ++number) {
      if (taken.insert(folded(file)).second) {
        files[i] = file;
      }
      file = fmt::format("{}_{}", name, number);
    }
  }
  return files;
}

}  // namespace tilemesh::cli
