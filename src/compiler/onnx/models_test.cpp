#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "tilemesh/compiler/compile.hpp"

#include "compiler/onnx/constants.hpp"

/// Real models, where they have been fetched.
namespace tilemesh {
namespace {

namespace fs = std::filesystem;

using Shapes = std::map<std::string, Shape>;

// A model's file, the shapes of its inputs, the shapes of its outputs.
struct Case {
  std::string file;
  Shapes inputs;
  Shapes outputs;
};

const Shapes kWindow = {{"input", {1, 576}}, {"state", {2, 1, 128}}};
const Shapes kProbability = {{"output", {1, 1}}, {"stateN", {2, 1, 128}}};
const Shapes kSequence = {{"input", {7, 576}}, {"h", {1, 1, 128}}, {"c", {1, 1, 128}}};

const Case kCases[] = {
    {"silero_vad.onnx", kWindow, kProbability},
    {"silero_vad.onnx",
     {{"input", {3, 288}}, {"state", {2, 3, 128}}},
     {{"output", {3, 1}}, {"stateN", {2, 3, 128}}}},
    {"silero_vad_16k_op15.onnx", kWindow, kProbability},
    {"silero_vad_op18_ifless.onnx", kWindow, kProbability},
    {"silero_vad_half.onnx", kWindow, kProbability},
    {"silero_vad_openvino_16k.onnx", kWindow, kProbability},
    {"silero_vad_16k_sequence.onnx",
     kSequence,
     {{"speech_probs", {7}}, {"hn", {1, 1, 128}}, {"cn", {1, 1, 128}}}},
    {"ch_ppocr_mobile_v2.0_cls_infer.onnx",
     {{"x", {1, 3, 48, 192}}},
     {{"save_infer_model/scale_0.tmp_1", {1, 2}}}},
    {"ch_PP-OCRv4_rec_infer.onnx", {{"x", {1, 3, 48, 320}}}, {{"softmax_11.tmp_0", {1, 40, 6625}}}},
    {"ch_PP-OCRv4_det_infer.onnx",
     {{"x", {1, 3, 160, 224}}},
     {{"sigmoid_0.tmp_0", {1, 1, 160, 224}}}},
};

fs::path models() {
  const char* set = std::getenv("TILEMESH_MODELS");
  return set != nullptr ? fs::path(set)
         : fs::path(__FILE__).is_absolute()
             ? fs::path(__FILE__).parent_path() / "../../../build/models"
             : fs::path("../../../build/models");  // tests run in their source folder
}

class OnnxModels : public ::testing::TestWithParam<Case> {};

TEST_P(OnnxModels, Import) {
  const Case& model = GetParam();
  const fs::path path = models() / model.file;
  if (!fs::exists(path)) {
    GTEST_SKIP() << model.file << " isn't in " << models() << ": run `make models`";
  }
  OnnxOptions options;
  options.shapes = model.inputs;
  const Graph graph = import_onnx(path, options);
  graph.check();
  EXPECT_EQ(graph.name, path.stem().string());
  Shapes outputs;
  for (const GraphOutput& output : graph.outputs)
    outputs[output.name] = graph[output.value].type.shape;
  EXPECT_EQ(outputs, model.outputs);
}

std::string test_name(const ::testing::TestParamInfo<Case>& info) {
  std::string name = fs::path(info.param.file).stem().string() + "_" + std::to_string(info.index);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

void PrintTo(const Case& model, std::ostream* out) {
  *out << model.file;
}

INSTANTIATE_TEST_SUITE_P(Wheels, OnnxModels, ::testing::ValuesIn(kCases), test_name);

}  // namespace
}  // namespace tilemesh
