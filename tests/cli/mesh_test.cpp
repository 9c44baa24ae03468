#include <nlohmann/json.hpp>

#include "tool.hpp"

namespace tilemesh::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// A two-layer perceptron: x[8,32] -> up[8,64] -> y[8,32].
Graph perceptron(const std::string& name) {
  ProgramBuilder builder(name);
  const auto parameter = [&](const std::string& value, const Shape& shape) {
    return builder.input(value, {.shape = shape}, InputKind::parameter);
  };
  const auto x = builder.input("x", {.shape = {8, 32}});
  const auto up = builder.matmul(x, parameter("w1", {32, 64}));
  builder.output("y", builder.matmul(builder.relu(up), parameter("w2", {64, 32})));
  return builder.build();
}

class MeshTool : public ToolTest {
 protected:
  std::string save(const std::string& file, const CompileOptions& options) const {
    compile({perceptron("mlp")}, options).save(path(file));
    return path(file);
  }
  std::string save_tensor() const {
    return save("tensor.tmb", {.mesh = {1, 2}, .automatic = {AutoShard::tensor}});
  }
};

TEST_F(MeshTool, InspectShowsPlacementsAndCollectives) {
  const ToolResult result = tool({"inspect", save_tensor()});
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* part :
       {"f32[32,64](R,S1)", "f32[64,32](R,S0)", "(R,Psum)", "all_reduce", "bytes a device",
        "S0 cut along dim 0", "1 movement between devices, 1024 bytes received by a device"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
  EXPECT_THAT(tool({"inspect", save("one.tmb", {})}).out,
              AllOf(Not(HasSubstr("reshard")), Not(HasSubstr("(R"))));
}

TEST_F(MeshTool, InspectCountsWhatStaysOnTheDevices) {
  const std::string binary = save("cut.tmb", {.mesh = {2}, .shards = parse_shard_rules("y=0")});
  const auto json = nlohmann::json::parse(tool({"inspect", binary, "--json"}).out);
  const auto& collectives = json["programs"][0]["collectives"];
  std::size_t between = 0;
  for (const auto& reshard : collectives["reshards"]) {
    EXPECT_EQ(reshard["movement"] == "slice" || reshard["movement"] == "fill",
              reshard["bytes_per_device"] == 0);
    between += reshard["bytes_per_device"] == 0 ? 0U : 1U;
  }
  EXPECT_EQ(collectives["count"], collectives["reshards"].size());
  EXPECT_EQ(collectives["between_devices"], between);
}

TEST_F(MeshTool, InspectListsValuesWithTheirReasons) {
  const std::string binary = save_tensor();
  const ToolResult result = tool({"inspect", binary, "--values"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("shard 1 along axis 1: --auto tensor: \"w1\" in columns"));
  EXPECT_THAT(result.out, HasSubstr("partial sum along axis 1"));
  EXPECT_THAT(result.out, Not(HasSubstr("parameter ")));
  const auto json = nlohmann::json::parse(tool({"inspect", binary, "--json"}).out);
  bool found = false;
  for (const auto& value : json["programs"][0]["values"]) {
    if (value["name"] == "w1") {
      found = true;
      EXPECT_EQ(value["placements"], nlohmann::json({"replicate", "shard 1"}));
      EXPECT_EQ(value["reason"], "shard 1 along axis 1: --auto tensor: \"w1\" in columns");
      EXPECT_TRUE(value["made_by"].empty());
      EXPECT_EQ(value["read_by"], nlohmann::json({0}));
    }
  }
  EXPECT_TRUE(found);
}

TEST_F(MeshTool, ExplainSaysWhyWhatMakesAndWhatReads) {
  const std::string binary = save_tensor();
  const ToolResult weight = tool({"inspect", binary, "--explain", "w1"});
  EXPECT_EQ(weight.code, 0) << weight.err;
  EXPECT_THAT(weight.out, HasSubstr("\"w1\": f32[32,64] on mesh 1x2 (replicate, shard 1)"));
  EXPECT_THAT(weight.out, HasSubstr("Why: shard 1 along axis 1: --auto tensor"));
  EXPECT_THAT(weight.out, HasSubstr("It is input \"w1\" (parameter)."));
  EXPECT_THAT(weight.out, HasSubstr("takes it as input 1, as it lies."));
  const ToolResult result = tool({"inspect", binary, "--explain", "y"});
  EXPECT_THAT(result.out, HasSubstr("It is output \"y\"."));
  EXPECT_THAT(result.out, HasSubstr("It is made by op 2, reshard"));
  const auto json =
      nlohmann::json::parse(tool({"inspect", binary, "--explain", "w1", "--json"}).out);
  ASSERT_EQ(json["programs"][0]["values"].size(), 1U);
  EXPECT_EQ(json["programs"][0]["values"][0]["name"], "w1");
}

TEST_F(MeshTool, ExplainOfAnUnknownValueNamesCloseOnes) {
  const ToolResult result = tool({"inspect", save_tensor(), "--explain", "w3"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("no value \"w3\"; did you mean \"w1\", \"w2\"?"));
  EXPECT_EQ(result.out, "");
}

TEST_F(MeshTool, ExplainWorksForSeveralProgramsInAFile) {
  compile({perceptron("first"), perceptron("second")},
          {.mesh = {2}, .automatic = {AutoShard::tensor}})
      .save(path("two.tmb"));
  const ToolResult both = tool({"inspect", "two.tmb", "--explain", "w2"});
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_THAT(both.out, AllOf(HasSubstr("program first"), HasSubstr("program second")));
  const ToolResult one = tool({"inspect", "two.tmb", "--explain", "w2", "--program", "second"});
  EXPECT_THAT(one.out, AllOf(Not(HasSubstr("program first")), HasSubstr("program second")));
}

TEST_F(MeshTool, CheckSaysThatNothingIsToDo) {
  const std::string binary = save_tensor();
  const ToolResult result = tool({"check", binary + ":mlp.y", binary + ":mlp.x", "--forbid"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("nothing to do"));
  const auto json =
      nlohmann::json::parse(tool({"check", binary + ":y", binary + ":x", "--json"}).out);
  EXPECT_EQ(json["copies"], 0);
  EXPECT_EQ(json["stitches"], true);
  EXPECT_EQ(json["shape"]["same"], true);
  EXPECT_EQ(json["from"]["program"], "mlp");
  EXPECT_EQ(json["to"]["kind"], "activation");
}

TEST_F(MeshTool, CheckSaysWhatAReshardMoves) {
  const std::string cut = save("cut.tmb", {.mesh = {1, 2}, .automatic = {AutoShard::data}});
  const std::string whole = save_tensor();
  const ToolResult gathered = tool({"check", cut + ":y", whole + ":x"});
  EXPECT_EQ(gathered.code, 0) << gathered.err;
  // 8x32 floats: each of two devices gets the half that it lacks, and writes the whole.
  for (const char* part :
       {"all_gather over axis 1", "(replicate, shard 0)", "(replicate, replicate)",
        "1 copy, 2048 bytes written on all devices, 512 bytes received by a device"}) {
    EXPECT_THAT(gathered.out, HasSubstr(part));
  }
  const ToolResult sliced = tool({"check", whole + ":y", cut + ":x", "--json"});
  EXPECT_EQ(sliced.code, 0) << sliced.err;
  const auto json = nlohmann::json::parse(sliced.out);
  EXPECT_EQ(json["copies"], 1);
  EXPECT_EQ(json["bytes_received_per_device"], 0);
  EXPECT_EQ(json["bytes_written"], 1024);
  const ToolResult forbidden = tool({"check", cut + ":y", whole + ":x", "--forbid"});
  EXPECT_EQ(forbidden.code, 1);
  EXPECT_THAT(forbidden.err, HasSubstr("--forbid"));
}

TEST_F(MeshTool, CheckKnowsSpacesAndWeights) {
  const std::string host = save("host.tmb", {.mesh = {1, 2}, .spaces = {{"y", Space::host}}});
  const ToolResult upload = tool({"check", host + ":y", save_tensor() + ":x"});
  EXPECT_EQ(upload.code, 0) << upload.err;
  EXPECT_THAT(upload.out, AllOf(HasSubstr("host"), HasSubstr("upload"), HasSubstr("1 copy")));
  const ToolResult weights = tool({"check", save_tensor() + ":w1", host + ":w1"});
  EXPECT_EQ(weights.code, 0) << weights.err;
  EXPECT_THAT(weights.out, AllOf(HasSubstr("(parameter)"), HasSubstr("all_gather over axis 1")));
}

TEST_F(MeshTool, CheckEndsInOneWhereNoStitchCanBe) {
  const std::string binary = save_tensor();
  ProgramBuilder builder("other");
  builder.output("same", builder.relu(builder.input("f", {.shape = {8, 32}})));
  const auto whole = builder.input("i", {.shape = {8, 32}, .dtype = DType::i64});
  builder.output("j", builder.add(whole, whole));
  builder.output("k", builder.relu(builder.input("wide", {.shape = {8, 33}})));
  compile({builder.build()}, {.mesh = {1, 2}}).save(path("other.tmb"));
  save("four.tmb", {.mesh = {2, 2}});
  const auto refused = [&](const std::string& from, const std::string& to) {
    const ToolResult result = tool({"check", from, to});
    EXPECT_EQ(result.code, 1) << from << " " << to << result.out;
    return result.err;
  };
  EXPECT_THAT(refused(binary + ":y", "other.tmb:i"), AllOf(HasSubstr("f32"), HasSubstr("i64")));
  EXPECT_THAT(refused(binary + ":y", "other.tmb:other.wide"),
              AllOf(HasSubstr("[8,32]"), HasSubstr("[8,33]")));
  EXPECT_THAT(refused(binary + ":y", "four.tmb:x"), AllOf(HasSubstr("1x2"), HasSubstr("2x2")));
  EXPECT_EQ(tool({"check", "none.tmb:y", binary + ":x"}).code, 1);
}

TEST_F(MeshTool, CheckEndsInTwoForWhatIsNotThere) {
  const std::string binary = save_tensor();
  const std::vector<std::vector<std::string>> lines = {
      {"check", binary, binary + ":x"},
      {"check", binary + ":", binary + ":x"},
      {"check", binary + ":y"},
      {"check", binary + ":mlp.z", binary + ":x"},
      {"check", binary + ":y", binary + ":y"},
      {"check", binary + ":other.y", binary + ":x"},
  };
  for (const auto& line : lines) {
    const ToolResult result = tool(line);
    EXPECT_EQ(result.code, 2) << ::testing::PrintToString(line) << result.out;
    EXPECT_EQ(result.out, "");
  }
  compile({perceptron("a"), perceptron("a.b")}, {}).save(path("two.tmb"));
  EXPECT_EQ(tool({"check", "two.tmb:y", "two.tmb:a.x"}).code, 2);
  EXPECT_EQ(tool({"check", "two.tmb:a.b.y", "two.tmb:a.x"}).code, 0);
}

TEST_F(MeshTool, CheckFindsFilesWithColonsInTheirNames) {
  const std::string binary = save("a:b.tmb", {});
  const ToolResult result = tool({"check", binary + ":y", "a:b.tmb:mlp.x"});
  EXPECT_EQ(result.code, 0) << result.err;
}

}  // namespace
}  // namespace tilemesh::cli
