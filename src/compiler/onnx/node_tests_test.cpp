#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tilemesh/compiler/compile.hpp"
#include "tilemesh/compiler/onnx_tensor.hpp"
#include "tilemesh/types/strided.hpp"

#include "compiler/interpret.hpp"
#include "compiler/onnx/constants.hpp"

/// ONNX's own tests of its operators, as Debian's libonnx-testdata installs them: each folder holds
/// a model, inputs and expected outputs. Imported, and run by the references of our ops.
namespace tilemesh {
namespace {

namespace fs = std::filesystem;

fs::path folder_of_tests() {
  const char* set = std::getenv("TILEMESH_ONNX_NODE_TESTS");
  return set != nullptr ? set : "/usr/share/libonnx-testdata/data/node";
}

bool equal(const ConstantData& got, const ConstantData& want) {
  if (got.dtype != want.dtype || !(got.shape == want.shape)) return false;
  const std::vector<double> a = onnx_importer::read_as<double>(got);
  const std::vector<double> b = onnx_importer::read_as<double>(want);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i]) continue;
    const double allowed = got.dtype == DType::bf16 ? 1e-2 : got.dtype == DType::f16 ? 2e-3 : 1e-3;
    if (!(std::abs(a[i] - b[i]) <= 1e-5 + allowed * std::abs(b[i]))) return false;
  }
  return true;
}

// Of an output with room behind its elements, what its count says is there.
ConstantData counted_part(const Graph& graph, const std::vector<ConstantData>& results,
                          std::size_t number, const Shape& wanted) {
  ConstantData data = results[number];
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (graph.outputs[i].name != graph.outputs[number].name + ".count") continue;
    const std::int64_t count = onnx_importer::read_as<std::int64_t>(results[i])[0];
    for (int d = 0; d < wanted.rank() && wanted.rank() == data.shape.rank(); ++d) {
      if (wanted[d] != count || data.shape[d] <= count) continue;
      const Shape part = data.shape.with(d, count);
      auto bytes = std::make_shared<std::vector<std::byte>>(
          static_cast<std::size_t>(part.element_count() * size_of(data.dtype)));
      copy_strided({data.bytes->data(), data.dtype, part, row_major_strides(data.shape)},
                   {bytes->data(), data.dtype, part, row_major_strides(part)});
      return {data.dtype, part, bytes};
    }
  }
  return data;
}

std::vector<ConstantData> read_all(const fs::path& folder, const std::string& kind) {
  std::vector<ConstantData> tensors;
  for (int i = 0; fs::exists(folder / (kind + "_" + std::to_string(i) + ".pb")); ++i)
    tensors.push_back(read_onnx_tensor(folder / (kind + "_" + std::to_string(i) + ".pb")));
  return tensors;
}

// Imports and runs one folder; "passed", or what happened instead.
std::string outcome(const fs::path& folder) {
  const fs::path data = folder / "test_data_set_0";
  try {
    const std::vector<OnnxInputInfo> infos = onnx_inputs(folder / "model.onnx");
    const std::vector<ConstantData> tensors = read_all(data, "input");
    const std::vector<ConstantData> wanted = read_all(data, "output");
    std::map<std::string, ConstantData> inputs;
    OnnxOptions options;
    for (std::size_t i = 0; i < std::min(infos.size(), tensors.size()); ++i) {
      inputs[infos[i].name] = tensors[i];
      if (infos[i].value_needed) options.values[infos[i].name] = tensors[i];
      if (!infos[i].value_needed) options.shapes[infos[i].name] = tensors[i].shape;
    }
    const Graph graph = import_onnx(folder / "model.onnx", options);
    graph.check();
    const std::vector<ConstantData> got = interpret(graph, inputs);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (i >= got.size() || !equal(counted_part(graph, got, i, wanted[i].shape), wanted[i]))
        return "differs in output " + std::to_string(i);
    }
    return "passed";
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
}

// Folders whose expected values are wrong, and why.
const std::map<std::string, std::string> kBroken = {
    {"test_adam_multiple", "the model lacks the epsilon of 1e-2 that the values were made with"},
    {"test_cast_FLOAT_to_BFLOAT16", "the expected values are stored as uint16"},
    {"test_castlike_BFLOAT16_to_FLOAT", "input \"like\" hasn't the shape that the model says"},
    {"test_castlike_BFLOAT16_to_FLOAT_expanded", "as above"},
    {"test_castlike_FLOAT_to_BFLOAT16", "as above"},
    {"test_castlike_FLOAT_to_BFLOAT16_expanded", "as above"},
    {"test_resize_downsample_scales_linear_align_corners", "counts with an output size of 2.4"},
    {"test_resize_downsample_scales_cubic_align_corners", "counts with an output size of 3.2"},
};

TEST(OnnxNodeTests, PassOrAreUnsupported) {
  const fs::path root = folder_of_tests();
  if (!fs::is_directory(root)) {
    GTEST_SKIP() << "no ONNX node tests in " << root
                 << ": install libonnx-testdata or set TILEMESH_ONNX_NODE_TESTS";
  }
  std::map<std::string, std::vector<std::string>> others;  // by what happened
  int passed = 0;
  int unsupported = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    const std::string result = outcome(entry.path());
    if (result == "passed") {
      ++passed;
    } else if (result.starts_with("unsupported")) {
      ++unsupported;
      others[result].push_back(entry.path().filename());
    } else if (!kBroken.contains(entry.path().filename())) {
      ADD_FAILURE() << entry.path().filename() << ": " << result;
    }
  }
  EXPECT_GE(passed, 861) << unsupported << " are unsupported";
  if (const char* file = std::getenv("TILEMESH_ONNX_NODE_REPORT"); file != nullptr) {
    std::ofstream report(file);
    report << passed << " passed, " << unsupported << " unsupported\n";
    for (const auto& [what, folders] : others) {
      for (const std::string& folder : folders)
        report << folder << ": " << what << "\n";
    }
  }
}

}  // namespace
}  // namespace tilemesh
