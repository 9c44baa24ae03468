#include <nlohmann/json.hpp>

#include "tool.hpp"

namespace tilemesh::cli {
namespace {

using ::testing::HasSubstr;

class Compile : public ToolTest {
 protected:
  void SetUp() override { SKIP_WITHOUT_NODE_TESTS(); }
};

TEST_F(Compile, WritesABinaryThatRuns) {
  const ToolResult result =
      tool({"compile", node_test("test_relu/model.onnx"), "-o", "relu.tmb", "--mesh", "1x2"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("wrote relu.tmb"));
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(Binary::load(path("relu.tmb")).program()->mesh, (MeshShape{1, 2}));
  EXPECT_EQ(tool({"run", "relu.tmb"}).code, 0);
}

TEST_F(Compile, SeveralModelsAreProgramsNamedAfterTheirFiles) {
  std::filesystem::copy(node_test("test_relu/model.onnx"), path("first.onnx"));
  std::filesystem::copy(node_test("test_matmul_2d/model.onnx"), path("second.onnx"));
  const ToolResult result =
      tool({"compile", "first.onnx", "second.onnx", "-o", "both.tmb", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["programs"][1]["name"], "second");
  EXPECT_EQ(json["bytes"], std::filesystem::file_size(path("both.tmb")));
  EXPECT_EQ(Binary::load(path("both.tmb")).program_names(),
            (std::vector<std::string>{"first", "second"}));
  const ToolResult which = tool({"run", "both.tmb"});
  EXPECT_EQ(which.code, 1);
  EXPECT_THAT(which.err, HasSubstr("\"first\", \"second\""));
  EXPECT_EQ(tool({"run", "both.tmb", "--program", "second"}).code, 0);
}

TEST_F(Compile, LeavesNothingWhenItFails) {
  const ToolResult unknown =
      tool({"compile", node_test("test_bernoulli/model.onnx"), "-o", "a.tmb"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("Bernoulli"));
  EXPECT_FALSE(std::filesystem::exists(path("a.tmb")));
  EXPECT_EQ(tool({"compile", node_test("test_relu/model.onnx"), "-o", "none/a.tmb"}).code, 1);
}

TEST_F(Compile, OptionsThatFitNoModelAreUsageErrors) {
  const std::string model = node_test("test_relu/model.onnx");
  const std::vector<std::vector<std::string>> lines = {
      {"--dim", "N=1"},      {"--shape", "y=1"},     {"--shape", "x=1,b"},
      {"--space", "x=moon"}, {"--shard", "x=first"}, {"--dim", "N"},
  };
  for (const auto& line : lines) {
    const ToolResult result = tool({"compile", model, "-o", "a.tmb", line[0], line[1]});
    EXPECT_EQ(result.code, 2) << line[0] << " " << line[1] << result.err;
  }
}

TEST_F(Compile, ATargetFileThatIsNoneIsNamed) {
  write(path("target.json"), "{\"cores\": []}");
  const ToolResult result = tool(
      {"compile", node_test("test_relu/model.onnx"), "-o", "a.tmb", "--target", "target.json"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("target.json"));
}

}  // namespace
}  // namespace tilemesh::cli
