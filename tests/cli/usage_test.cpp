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

TEST_F(Usage, ATypoIsAskedAbout) {
  const std::string binary = save_program("a.tmb");
  const std::string model = save_model("a.onnx");
  const std::string x = save_array("x.npy", {3});
  write(path("target.json"), R"({"backend": "cpuu", "cores": 1})");
  struct Typo {
    std::vector<std::string> line;
    std::string meant;
    int code = 2;
  };
  const std::vector<Typo> typos = {
      {{"rnu", binary}, "run"},
      {{"inspec", binary}, "inspect"},
      {{"paln", binary, "--dram", "1GiB"}, "plan"},
      {{"run", binary, "--inptu", "x=x.npy"}, "--input"},
      {{"run", binary, "--otuput-dir=out"}, "--output-dir"},
      {{"compile", model, "--outptu", "o.tmb"}, "--output"},
      {{"compile", model, "-o", "o.tmb", "--mehs", "1x2"}, "--mesh"},
      {{"plan", binary, "--jsno"}, "--json"},
      {{"query", "--thread-per-device", "1"}, "--threads-per-device"},
      {{"verify", model, "--dta", "x"}, "--data"},
      {{"run", binary, "--program", "apxb"}, "axpb"},
      {{"inspect", binary, "--program", "axpbb"}, "axpb"},
      {{"plan", binary, "--program", "axp"}, "axpb"},
      {{"run", binary, "--input", "smu=x.npy"}, "sum"},
      {{"run", model, "--input", "X=x.npy"}, "x"},
      {{"inspect", binary, "--explain", "next/smu"}, "next/sum"},
      {{"check", binary + ":axpb.next/sun", binary + ":x"}, "axpb.next/sum"},
      {{"compile", model, "-o", "o.tmb", "--shape", "X=3"}, "x"},
      {{"compile", model, "-o", "o.tmb", "--value", "X=3"}, "x"},
      {{"compile", model, "-o", "o.tmb", "--space", "X=host"}, "x"},
      {{"compile", model, "-o", "o.tmb", "--state", "X=y"}, "x"},
      {{"compile", model, "-o", "o.tmb", "--shard", "Y=0", "--mesh", "1x2"}, "y"},
      {{"compile", model, "-o", "o.tmb", "--space", "x=hots"}, "host"},
      {{"compile", model, "-o", "o.tmb", "--auto", "tenosr", "--mesh", "1x2"}, "tensor"},
      {{"compile", model, "-o", "o.tmb", "--target", "target.json"}, "cpu", 1},
  };
  for (const Typo& typo : typos) {
    const ToolResult result = tool(typo.line);
    EXPECT_EQ(result.code, typo.code) << ::testing::PrintToString(typo.line) << result.err;
    EXPECT_THAT(result.err, HasSubstr("did you mean \"" + typo.meant + "\""))
        << ::testing::PrintToString(typo.line);
  }
  OnnxModel wrong;
  wrong.input("x");
  wrong.node("Relus", {"x"}, "y");
  wrong.output("y");
  write(path("wrong.onnx"), wrong.bytes());
  const ToolResult result = tool({"compile", "wrong.onnx", "-o", "o.tmb"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("did you mean \"Relu\""));
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
