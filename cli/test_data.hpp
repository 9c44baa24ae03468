#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arrays.hpp"

namespace tilemesh::cli {

/// Arrays to run a model on, and those that it should give. By number as the ONNX backend tests
/// have them (a number that is missing is an optional one not given), or by a name: that of an
/// input or output, or input_0, output_0 and so on where none is named so.
struct TestData {
  std::map<std::size_t, HostArray> inputs;
  std::map<std::size_t, HostArray> outputs;
  NamedArrays named;
};

/// The number in "<prefix><number>".
std::optional<std::size_t> number_in(std::string_view name, std::string_view prefix);

/// Reads one set: a folder with input_0.pb ..., output_0.pb ... and NAME.npy, or a .npz file of
/// named arrays. `data_root` is for external data (see OnnxOptions). Throws what reading an array
/// throws, with the file's name.
TestData read_test_data(const std::filesystem::path& set, const std::filesystem::path& data_root);

/// The sets that a path means: a .npz file itself; a folder itself if it holds arrays, otherwise
/// the .npz files in it or the folders test_data_set_* in it, in order. Throws io if there are
/// none.
std::vector<std::filesystem::path> find_data_sets(const std::filesystem::path& path);

/// The folders in `folder` that hold a model.onnx, by name; `folder` itself if it holds one. Throws
/// io if there are none.
std::vector<std::filesystem::path> find_tests(const std::filesystem::path& folder);

/// An array for the input of that name, from a .npy, .pb or .npz file; of the last the one that has
/// the name, or the only one.
HostArray read_array(const std::filesystem::path& path, const std::string& name,
                     const std::filesystem::path& data_root);

}  // namespace tilemesh::cli
