#include <nlohmann/json.hpp>

#include "tool.hpp"

namespace tilemesh::cli {
namespace {

using ::testing::HasSubstr;

class Plan : public ToolTest {};

TEST_F(Plan, SaysThatItFitsAndWhoTakesHowMuch) {
  const ToolResult result =
      tool({"plan", save_program("a.tmb"), "--mesh", "1x1", "--dram", "2GiB", "--l1", "1MiB"});
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* part : {"program axpb on mesh 1x1: fits", "2147483648", "axpb.sum", "constant",
                           "input", "output", "dram", "l1"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
  EXPECT_EQ(result.err, "");
}

TEST_F(Plan, ComesToOneWhenItDoesNotFit) {
  const ToolResult result = tool({"plan", save_program("a.tmb"), "--dram", "0.25KiB"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("does not fit"));
  EXPECT_THAT(result.err, HasSubstr("program \"axpb\": dram doesn't fit: asked "));
  EXPECT_THAT(result.err, HasSubstr("available 256 bytes"));
  EXPECT_THAT(result.err, HasSubstr("largest holders: "));
}

TEST_F(Plan, PrintsJson) {
  const ToolResult result =
      tool({"plan", save_program("a.tmb"), "--program", "axpb", "--dram", "1MiB", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  const auto& program = json["programs"][0];
  EXPECT_EQ(program["fits"], true);
  const auto& dram = program["spaces"][0];
  EXPECT_EQ(dram["space"], "dram");
  EXPECT_EQ(dram["available_bytes"], 1 << 20);
  EXPECT_EQ(dram["inputs_bytes"], 3 * 64);  // of 24, 12 and 24 bytes
  EXPECT_EQ(dram["outputs_bytes"], 64);     // y; the other takes over `sum`
  std::int64_t held = 0;
  for (const auto& holder : dram["holders"]) {
    held += holder["bytes"].get<std::int64_t>();
  }
  EXPECT_EQ(dram["peak_bytes"], held);
}

TEST_F(Plan, IsWhatTheLedgerSaysAfterwards) {
  const auto json = nlohmann::json::parse(tool({"plan", save_program("a.tmb"), "--json"}).out);
  const Mesh mesh = Mesh::open({.dram_bytes = 1 << 20, .l1_bytes = 1 << 16});
  const Executable executable = prepare(mesh, Binary::load(path("a.tmb")).program());
  std::vector<Tensor> held;
  for (int i = 0; i < static_cast<int>(executable.input_count()); ++i) {
    held.push_back(zeros(executable.input(i)));
  }
  held.push_back(empty(executable.output("y")));
  EXPECT_EQ(memory_report(mesh).spaces[0].used_bytes,
            json["programs"][0]["spaces"][0]["peak_bytes"]);
}

TEST_F(Plan, RefusesWhatCannotBe) {
  const std::string file = save_program("a.tmb");
  const ToolResult other = tool({"plan", file, "--mesh", "1x2"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("is for a mesh of 1x1, not 1x2"));
  EXPECT_EQ(tool({"plan", file, "--program", "q"}).code, 2);
  EXPECT_EQ(tool({"plan", "none.tmb"}).code, 1);
  EXPECT_EQ(tool({"plan", file, "--dram", "lots"}).code, 2);
  EXPECT_EQ(tool({"plan", file, "--mesh", "0x"}).code, 2);
  EXPECT_EQ(tool({"plan"}).code, 2);
}

}  // namespace
}  // namespace tilemesh::cli
