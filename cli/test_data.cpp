#include "test_data.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "tilemesh/base/close_names.hpp"
#include "tilemesh/base/error.hpp"
#include "tilemesh/compiler/onnx_tensor.hpp"

#include "command.hpp"
#include "npy.hpp"
#include "npz.hpp"

namespace tilemesh::cli {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    entries.push_back(it->path());
  }
  if (error) {
    throw Error(ErrorCode::io,
                fmt::format("can't read the folder \"{}\": {}", folder.string(), error.message()));
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// Whatever it is: what isn't a file is then said by who reads it.
bool has_model(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "model.onnx", ignored);
}

bool holds_an_array(const fs::path& file) {
  return file.extension() == ".pb" || file.extension() == ".npy";
}

void read_tensor(TestData& data, const fs::path& file, const fs::path& data_root) {
  const std::string name = file.stem().string();
  const std::optional<std::size_t> input = number_in(name, "input_");
  const std::optional<std::size_t> output = number_in(name, "output_");
  if (!input && !output) {
    return;
  }
  try {
    HostArray array = to_array(read_onnx_tensor(file, data_root));
    const bool is_new = input ? data.inputs.emplace(*input, std::move(array)).second
                              : data.outputs.emplace(*output, std::move(array)).second;
    if (!is_new) {
      throw Error(ErrorCode::invalid_file, "another file has the same number");
    }
  } catch (const Error& error) {
    throw error.in(file.filename().string());
  }
}

TestData read_folder(const fs::path& folder, const fs::path& data_root) {
  TestData data;
  for (const fs::path& entry : entries_of(folder)) {
    if (entry.extension() == ".npy") {
      data.named[entry.stem().string()] = read_npy(entry);
    } else if (entry.extension() == ".pb") {
      read_tensor(data, entry, data_root);
    }
  }
  return data;
}

}  // namespace

std::optional<std::size_t> number_in(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix) || name.size() == prefix.size()) {
    return std::nullopt;
  }
  name.remove_prefix(prefix.size());
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool whole = error == std::errc() && end == name.data() + name.size();
  return whole ? std::optional(number) : std::nullopt;
}

TestData read_test_data(const fs::path& set, const fs::path& data_root) {
  TestData data;
  if (set.extension() == ".npz") {
    data.named = read_npz(set);
  } else {
    data = read_folder(set, data_root);
  }
  if (data.outputs.empty() && data.named.empty()) {
    throw Error(ErrorCode::io,
                fmt::format("\"{}\" holds no output_0 to compare with", set.string()));
  }
  return data;
}

std::vector<fs::path> find_data_sets(const fs::path& path) {
  if (path.extension() == ".npz" && !is_folder(path)) {
    return {path};
  }
  std::vector<std::pair<std::size_t, fs::path>> sets;
  std::vector<fs::path> archives;
  for (const fs::path& entry : entries_of(path)) {
    if (holds_an_array(entry)) {
      return {path};
    }
    const auto number = number_in(entry.filename().string(), "test_data_set_");
    if (number && is_folder(entry)) {
      sets.emplace_back(*number, entry);
    } else if (entry.extension() == ".npz") {
      archives.push_back(entry);
    }
  }
  if (sets.empty() && archives.empty()) {
    throw Error(ErrorCode::io,
                fmt::format("\"{}\" holds neither output_0.pb or .npy nor a .npz file nor a folder "
                            "test_data_set_0",
                            path.string()));
  }
  std::sort(sets.begin(), sets.end());
  std::vector<fs::path> found = archives;
  for (const auto& [number, folder] : sets) {
    found.push_back(folder);
  }
  return found;
}

std::vector<fs::path> find_tests(const fs::path& folder) {
  if (has_model(folder)) {
    return {folder};
  }
  std::vector<fs::path> tests;
  for (const fs::path& entry : entries_of(folder)) {
    if (is_folder(entry) && has_model(entry)) {
      tests.push_back(entry);
    }
  }
  if (tests.empty()) {
    throw Error(ErrorCode::io,
                fmt::format("no folder in \"{}\" holds a model.onnx", folder.string()));
  }
  return tests;
}

HostArray read_array(const fs::path& path, const std::string& name, const fs::path& data_root) {
  if (path.extension() == ".pb") {
    return to_array(read_onnx_tensor(path, data_root));
  }
  if (path.extension() != ".npz") {
    return read_npy(path);
  }
  NamedArrays arrays = read_npz(path);
  const auto found = arrays.size() == 1 ? arrays.begin() : arrays.find(name);
  if (found == arrays.end()) {
    std::vector<std::string> names;
    for (const auto& [other, array] : arrays) {
      names.push_back(other);
    }
    throw UsageError(fmt::format("\"{}\" holds no array \"{}\"{}", path.string(), name,
                                 did_you_mean(name, names)));
  }
  return std::move(found->second);
}

}  // namespace tilemesh::cli
