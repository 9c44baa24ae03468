#include <nlohmann/json.hpp>

#include "tool.hpp"

namespace tilemesh::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class Usage : public ToolTest {};

TEST_F(Usage, HelpIsEverywhere) {
  EXPECT_EQ(tool({"--help"}).code, 0);
  EXPECT_EQ(tool({"--version"}).out.find("tilemesh "), 0U);
  for (const char* command : {"compile", "run", "verify", "inspect", "check", "plan", "query"}) {
    const ToolResult result = tool({command, "--help"});
    EXPECT_EQ(result.code, 0) << command;
    EXPECT_THAT(result.out, HasSubstr("Usage"));
    EXPECT_EQ(result.err, "");
  }
}

TEST_F(Usage, AnImpossibleCommandLineEndsInTwo) {
  const std::vector<std::vector<std::string>> lines = {
      {},
      {"fly"},
      {"run"},
      {"run", "a.onnx", "--fly"},
      {"run", "a.onnx", "--repeat", "0"},
      {"run", "a.onnx", "--repeat", "many"},
      {"run", "a.onnx", "--input", "x"},
      {"run", "a.onnx", "--mesh", "0x1"},
      {"run", "a.onnx", "--mesh", "two"},
      {"compile", "a.onnx"},
      {"compile", "a.onnx", "b/a.onnx", "-o", "c.tmb"},
      {"compile", "-o", "c.tmb"},
      {"verify", "a.onnx"},
      {"verify", "--data", "x", "--shape", "x=1"},
      {"inspect"},
      {"check", "a.tmb:x"},
  };
  for (const auto& line : lines) {
    const ToolResult result = tool(line);
    EXPECT_EQ(result.code, 2) << ::testing::PrintToString(line) << result.err;
    EXPECT_THAT(result.err, StartsWith("tilemesh: error: "));
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(Usage, QueryPrintsATargetThatCompileTakes) {
  const ToolResult result = tool({"query", "--mesh", "1x2"});
  EXPECT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["backend"], "cpu");
  EXPECT_GE(json["cores"].get<int>(), 1);
  SKIP_WITHOUT_NODE_TESTS();
  write(path("target.json"), result.out);
  const ToolResult compiled = tool({"compile", node_test("test_add/model.onnx"), "-o", "a.tmb",
                                    "--target", "target.json", "--mesh", "1x2"});
  EXPECT_EQ(compiled.code, 0) << compiled.err;
}

}  // namespace
}  // namespace tilemesh::cli
