#include "test_data.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/compiler/onnx_tensor.hpp"

namespace tilemesh::cli {
namespace {

namespace fs = std::filesystem;

/// The number in "<prefix><number><suffix>".
std::optional<std::size_t> number_in(std::string_view name, std::string_view prefix,
                                     std::string_view suffix) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix) ||
      name.size() <= prefix.size() + suffix.size()) {
    return std::nullopt;
  }
  name = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool whole = error == std::errc() && end == name.data() + name.size();
  return whole ? std::optional(number) : std::nullopt;
}

std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    entries.push_back(*it);
  }
  if (error) {
    throw Error(ErrorCode::io,
                fmt::format("can't read the folder \"{}\": {}", folder.string(), error.message()));
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

HostArray read_array(const fs::path& path) {
  try {
    return to_array(read_onnx_tensor(path));
  } catch (const Error& error) {
    throw error.in(path.filename().string());
  }
}

}  // namespace

TestData read_test_data(const fs::path& folder) {
  TestData data;
  for (const fs::directory_entry& entry : entries_of(folder)) {
    const std::string name = entry.path().filename().string();
    if (const auto input = number_in(name, "input_", ".pb")) {
      data.inputs[*input] = read_array(entry.path());
    } else if (const auto output = number_in(name, "output_", ".pb")) {
      data.outputs[*output] = read_array(entry.path());
    }
  }
  if (data.outputs.empty()) {
    throw Error(ErrorCode::not_found,
                fmt::format("\"{}\" holds no output_0.pb to compare with", folder.string()));
  }
  return data;
}

std::vector<fs::path> find_data_sets(const fs::path& folder) {
  std::vector<std::pair<std::size_t, fs::path>> sets;
  for (const fs::directory_entry& entry : entries_of(folder)) {
    if (entry.path().extension() == ".pb") {
      return {folder};
    }
    const auto number = number_in(entry.path().filename().string(), "test_data_set_", "");
    if (number && entry.is_directory()) {
      sets.emplace_back(*number, entry.path());
    }
  }
  if (sets.empty()) {
    throw Error(ErrorCode::not_found,
                fmt::format("\"{}\" holds neither output_0.pb nor a folder test_data_set_0",
                            folder.string()));
  }
  std::sort(sets.begin(), sets.end());
  std::vector<fs::path> folders;
  for (const auto& [number, path] : sets) {
    folders.push_back(path);
  }
  return folders;
}

std::vector<fs::path> find_tests(const fs::path& folder) {
  if (fs::exists(folder / "model.onnx")) {
    return {folder};
  }
  std::vector<fs::path> tests;
  for (const fs::directory_entry& entry : entries_of(folder)) {
    if (entry.is_directory() && fs::exists(entry.path() / "model.onnx")) {
      tests.push_back(entry.path());
    }
  }
  if (tests.empty()) {
    throw Error(ErrorCode::not_found,
                fmt::format("no folder in \"{}\" holds a model.onnx", folder.string()));
  }
  return tests;
}

}  // namespace tilemesh::cli
