#include <nlohmann/json.hpp>

#include "tool.hpp"

namespace tilemesh::cli {
namespace {

using ::testing::HasSubstr;

class Inspect : public ToolTest {};

TEST_F(Inspect, ShowsArgumentsOpsParametersAndMemory) {
  const ToolResult result = tool({"inspect", save_program("a.tmb")});
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* part : {"program axpb on mesh 1x1", "parameter", "state",
                           "output, in place of sum", "f32[2,3]", "rows", "dram", "workspace"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
  for (std::size_t at = 0; at < result.out.size();) {
    const std::size_t end = result.out.find('\n', at);
    EXPECT_LE(end - at, 200U) << result.out.substr(at, end - at);
    at = end + 1;
  }
}

TEST_F(Inspect, PrintsJson) {
  const ToolResult result = tool({"inspect", save_program("a.tmb"), "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  const auto& program = json["programs"][0];
  EXPECT_EQ(program["name"], "axpb");
  EXPECT_EQ(program["inputs"][1]["kind"], "parameter");
  EXPECT_EQ(program["inputs"][0]["dtype"], "f32");
  EXPECT_EQ(program["outputs"][1]["alias"], "sum");
  EXPECT_FALSE(program["ops"].empty());
  EXPECT_EQ(program["memory"][0]["space"], "dram");
  EXPECT_EQ(json["target"]["backend"], "cpu");
}

TEST_F(Inspect, NamesMustNotSteerTheTerminal) {
  const ToolResult result = tool({"inspect", save_program("a.tmb", "evil\x1b[2J")});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos);
  EXPECT_THAT(result.out, HasSubstr("evil\\x1b[2J"));
}

TEST_F(Inspect, RefusesWhatIsNoBinary) {
  EXPECT_EQ(tool({"inspect", "none.tmb"}).code, 1);
  write(path("text.tmb"), "hello");
  const ToolResult result = tool({"inspect", "text.tmb"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("\"text.tmb\": not a tilemesh binary"));
  EXPECT_EQ(tool({"inspect", save_program("a.tmb"), "--program", "q"}).code, 2);
}

}  // namespace
}  // namespace tilemesh::cli
