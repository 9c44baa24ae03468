#pragma once

#include <filesystem>
#include <map>
#include <vector>

#include "arrays.hpp"

namespace tilemesh::cli {

/// One `test_data_set_N` of the ONNX backend tests: input_0.pb ..., output_0.pb ..., numbered like
/// the inputs and outputs of the model. A number that is missing is an optional one not given.
struct TestData {
  std::map<std::size_t, HostArray> inputs;
  std::map<std::size_t, HostArray> outputs;
};

/// Reads one set. Throws what read_onnx_tensor throws, with the file's name.
TestData read_test_data(const std::filesystem::path& folder);

/// `folder` itself if it holds .pb files, otherwise the folders test_data_set_* in it, in order.
/// Throws not_found if there are none.
std::vector<std::filesystem::path> find_data_sets(const std::filesystem::path& folder);

/// The folders in `folder` that hold a model.onnx, by name; `folder` itself if it holds one.
std::vector<std::filesystem::path> find_tests(const std::filesystem::path& folder);

}  // namespace tilemesh::cli
