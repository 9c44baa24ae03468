#include <nlohmann/json.hpp>
#include <zlib.h>

#include "tool.hpp"

namespace tilemesh::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// What `verify` compares: kinds of data, kinds of models, kinds of differences.
class VerifyData : public ToolTest {
 protected:
  void SetUp() override {
    model_ = save_model("relu.onnx");
    EXPECT_EQ(tool({"compile", model_, "-o", "relu.tmb"}).code, 0);
  }

  void save_floats(const std::string& name, const std::vector<float>& values) const {
    HostArray array{DType::f32, Shape{static_cast<std::int64_t>(values.size())}, {}};
    const auto bytes = std::as_bytes(std::span(values));
    array.bytes.assign(bytes.begin(), bytes.end());
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    write_npy(path(name), array);
  }
  /// A .npz file of what save_floats makes.
  void save_npz(const std::string& name,
                const std::vector<std::pair<std::string, std::vector<float>>>& arrays) const {
    const auto number = [](auto value) {
      return std::string(reinterpret_cast<const char*>(&value), sizeof value);
    };
    std::string entries;
    std::string directory;
    for (const auto& [key, values] : arrays) {
      save_floats("one.npy", values);
      const std::string content = read(path("one.npy"));
      const auto size = static_cast<std::uint32_t>(content.size());
      const std::string middle = std::string(8, '\0') +
                                 number(static_cast<std::uint32_t>(crc32(
                                     0, reinterpret_cast<const Bytef*>(content.data()), size))) +
                                 number(size) + number(size) +
                                 number(static_cast<std::uint16_t>(key.size() + 4)) +
                                 number(std::uint16_t{0});
      directory += "PK\1\2" + number(std::uint16_t{20}) + number(std::uint16_t{20}) + middle +
                   std::string(10, '\0') + number(static_cast<std::uint32_t>(entries.size())) +
                   key + ".npy";
      entries += "PK\3\4" + number(std::uint16_t{20}) + middle + key + ".npy" + content;
    }
    const auto count = static_cast<std::uint16_t>(arrays.size());
    write(path(name), entries + directory + "PK\5\6" + number(std::uint32_t{0}) + number(count) +
                          number(count) + number(static_cast<std::uint32_t>(directory.size())) +
                          number(static_cast<std::uint32_t>(entries.size())) +
                          number(std::uint16_t{0}));
  }
  ToolResult verify(const std::string& model, const std::string& data,
                    const std::vector<std::string>& more = {}) const {
    std::vector<std::string> line = {"verify", model, "--data", data};
    line.insert(line.end(), more.begin(), more.end());
    return tool(line);
  }

  std::string model_;
};

TEST_F(VerifyData, TakesArraysInEveryFormForModelsAndBinaries) {
  save_npz("named.npz", {{"x", {-1, 0, 2}}, {"y", {0, 0, 2}}});
  save_npz("numbered.npz", {{"input_0", {-1, 0, 2}}, {"output_0", {0, 0, 2}}});
  save_floats("named/x.npy", {-1, 0, 2});
  save_floats("named/y.npy", {0, 0, 2});
  save_floats("numbered/input_0.npy", {-1, 0, 2});
  save_floats("numbered/output_0.npy", {0, 0, 2});
  std::filesystem::create_directories(path("tensors"));
  write(path("tensors/input_0.pb"), OnnxModel::tensor({-1, 0, 2}));
  write(path("tensors/output_0.pb"), OnnxModel::tensor({0, 0, 2}));
  for (const char* model : {"relu.onnx", "relu.tmb"}) {
    for (const char* data : {"named.npz", "numbered.npz", "named", "numbered", "tensors"}) {
      const ToolResult result = verify(model, data);
      EXPECT_EQ(result.code, 0) << model << " " << data << result.err << result.out;
      EXPECT_THAT(result.out, HasSubstr("passed"));
    }
  }
  save_npz("wrong.npz", {{"x", {-1, 0, 2}}, {"y", {0, 0, 3}}});
  EXPECT_EQ(verify("relu.onnx", "wrong.npz").code, 3);
  EXPECT_EQ(verify("relu.tmb", "wrong.npz").code, 3);
}

TEST_F(VerifyData, SaysWhatDoesNotFit) {
  save_npz("typo.npz", {{"x", {-1, 0, 2}}, {"yy", {0, 0, 2}}});
  save_npz("no_output.npz", {{"x", {-1, 0, 2}}});
  save_npz("no_input.npz", {{"y", {0, 0, 2}}});
  save_npz("shape.npz", {{"x", {-1, 0}}, {"y", {0, 0}}});
  for (const char* model : {"relu.onnx", "relu.tmb"}) {
    const auto said = [&](const char* data) {
      const ToolResult result = verify(model, data);
      EXPECT_EQ(result.code, 1) << data << result.out;
      return result.out + result.err;
    };
    EXPECT_THAT(said("typo.npz"), HasSubstr("\"yy\", which is no input or output; did you mean"));
    EXPECT_THAT(said("no_output.npz"), HasSubstr("no output to compare with"));
    EXPECT_THAT(said("no_input.npz"), HasSubstr("nothing for input \"x\""));
    EXPECT_THAT(said("shape.npz"), AllOf(HasSubstr("f32[2]"), HasSubstr("f32[3]")));
  }
  save_npz("good.npz", {{"x", {-1, 0, 2}}, {"y", {0, 0, 2}}});
  EXPECT_EQ(verify("relu.tmb", "good.npz", {"--program", "rleu"}).code, 2);
  EXPECT_EQ(verify("relu.tmb", "good.npz", {"--program", "relu"}).code, 0);
  EXPECT_EQ(verify("relu.tmb", "good.npz", {"--shape", "x=3"}).code, 2);
  EXPECT_EQ(verify("relu.tmb", "good.npz", {"--rtol", "-1"}).code, 2);
}

TEST_F(VerifyData, AnErrorMayBeSmallAgainstTheTensor) {
  // 0.004 of 1000 are 4e-6 of its largest element, and far from 0 by themselves.
  save_npz("a.npz", {{"x", {1000, -1, 0.004F}}, {"y", {1000, 0, 0}}});
  EXPECT_EQ(verify("relu.onnx", "a.npz").code, 0);
  EXPECT_EQ(verify("relu.onnx", "a.npz", {"--rtol-scale", "1e-6"}).code, 3);
  EXPECT_EQ(verify("relu.onnx", "a.npz", {"--rtol-scale", "0"}).code, 3);
  EXPECT_EQ(verify("relu.onnx", "a.npz", {"--rtol-scale", "0", "--atol", "0.01"}).code, 0);
  EXPECT_THAT(verify("relu.onnx", "a.npz").out, HasSubstr("4e-06 of the tensor's largest"));
  EXPECT_THAT(tool({"verify", "--help"}).out, HasSubstr("rtol-scale *"));
}

TEST_F(VerifyData, JsonOnTheStandardOutputStandsAlone) {
  save_npz("a.npz", {{"x", {-1, 0, 2}}, {"y", {0, 0, 2}}});
  const ToolResult one = verify("relu.tmb", "a.npz", {"--json", "-"});
  EXPECT_EQ(one.code, 0) << one.err;
  const auto json = nlohmann::json::parse(one.out);
  ASSERT_EQ(json.size(), 1U);
  EXPECT_EQ(json[0]["status"], "passed");
  std::filesystem::create_directories(path("tests/one/test_data_set_0"));
  std::filesystem::copy(model_, path("tests/one/model.onnx"));
  write(path("tests/one/test_data_set_0/input_0.pb"), OnnxModel::tensor({1, 2, 3}));
  write(path("tests/one/test_data_set_0/output_0.pb"), OnnxModel::tensor({1, 2, 4}));
  const ToolResult many = tool({"verify", "--data", "tests", "--json", "-"});
  EXPECT_EQ(many.code, 3) << many.err;
  EXPECT_EQ(nlohmann::json::parse(many.out)[0]["status"], "differed");
}

TEST_F(VerifyData, RunTakesArraysInEveryFormToo) {
  save_npz("a.npz", {{"x", {-1, 0, 2}}, {"other", {0}}});
  save_npz("only.npz", {{"whatever", {-1, 0, 2}}});
  save_npz("typo.npz", {{"xs", {-1, 0, 2}}, {"other", {0}}});
  write(path("x.pb"), OnnxModel::tensor({-1, 0, 2}));
  save_floats("x.npy", {-1, 0, 2});
  for (const char* file : {"a.npz", "only.npz", "x.pb", "x.npy"}) {
    const ToolResult result =
        tool({"run", "relu.tmb", "--input", std::string("x=") + file, "--output-dir", "out"});
    EXPECT_EQ(result.code, 0) << file << result.err;
    EXPECT_THAT(floats("out/y.npy"), ::testing::ElementsAre(0, 0, 2)) << file;
  }
  const ToolResult typo = tool({"run", "relu.tmb", "--input", "x=typo.npz"});
  EXPECT_EQ(typo.code, 2);
  EXPECT_THAT(typo.err, HasSubstr("did you mean \"xs\""));
}

}  // namespace
}  // namespace tilemesh::cli
