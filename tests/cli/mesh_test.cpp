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

TEST_F(MeshTool, ListsValuesWhateverTheirNames) {
  ProgramBuilder builder("named");
  builder.output("y\n\n\n", builder.relu(builder.input("x\n\n\n\x1b[2J", {.shape = {4}})));
  compile({builder.build()}, {.mesh = {2}, .automatic = {AutoShard::data}}).save(path("n.tmb"));
  const ToolResult result = tool({"inspect", "n.tmb", "--values"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("x\\x0a\\x0a\\x0a\\x1b[2J"));
  EXPECT_THAT(result.out, HasSubstr("shard 0 along axis 0: --auto data: a batch of 4"));
}

TEST_F(MeshTool, ExplainOfAnUnknownValueNamesCloseOnes) {
  const ToolResult result = tool({"inspect", save_tensor(), "--explain", "w3"});
  EXPECT_EQ(result.code, 2);
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

/// How one model is cut.
struct Cut {
  std::vector<std::string> options;
  std::string shown;  ///< by inspect
};

class MeshModels : public MeshTool {
 protected:
  void SetUp() override { SKIP_WITHOUT_NODE_TESTS(); }

  static std::vector<std::string> with(std::vector<std::string> words,
                                       const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  void copy_test(const std::string& test) const {
    std::filesystem::create_directories(path("tests"));
    std::filesystem::copy(node_test(test), path("tests/" + test),
                          std::filesystem::copy_options::recursive);
  }
};

TEST_F(MeshModels, CompileRunAndVerifyTakeTheSameCuts) {
  const std::string test = node_test("test_matmul_2d");  // a[3,4] times b[4,3]
  const std::vector<Cut> cuts = {
      {{"--mesh", "1x2", "--auto", "data"}, "f32[3,4](R,S0)"},
      {{"--mesh", "3", "--shard", "b=1"}, "f32[4,3](S1)"},
      {{"--mesh", "2x2", "--shard", "a=0@0", "--shard", "b=1@1"}, "(S0,S1)"},
      {{"--mesh", "1x4", "--shard", "a=1@1", "--shard", "b=0@1"}, "(R,Psum)"},
      {{"--mesh", "2x2", "--shard", "re:[ab]=0@0"}, "(S0,R)"},
  };
  for (const Cut& cut : cuts) {
    const std::string line = ::testing::PrintToString(cut.options);
    const ToolResult compiled =
        tool(with({"compile", test + "/model.onnx", "-o", "cut.tmb"}, cut.options));
    EXPECT_EQ(compiled.code, 0) << line << compiled.err;
    EXPECT_THAT(tool({"inspect", "cut.tmb"}).out, HasSubstr(cut.shown)) << line;
    const ToolResult run_binary = tool({"run", "cut.tmb", "--output-dir", "binary"});
    EXPECT_EQ(run_binary.code, 0) << line << run_binary.err;
    const ToolResult run_model =
        tool(with({"run", test + "/model.onnx", "--output-dir", "model"}, cut.options));
    EXPECT_EQ(run_model.code, 0) << line << run_model.err;
    EXPECT_EQ(floats("binary/c.npy"), floats("model/c.npy")) << line;
    const ToolResult verified =
        tool(with({"verify", test + "/model.onnx", "--data", test}, cut.options));
    EXPECT_EQ(verified.code, 0) << line << verified.out << verified.err;
  }
}

TEST_F(MeshModels, AFolderOfTestsIsCutWhereThereIsABatch) {
  copy_test("test_relu");
  copy_test("test_matmul_3d");
  copy_test("test_basic_conv_with_padding");  // a batch of one
  copy_test("test_einsum_sum");               // a product of one operand
  copy_test("test_slice_default_axes");       // that keeps a whole dim by its end
  const ToolResult result = tool(
      {"verify", "--data", "tests", "--mesh", "1x2", "--auto", "data", "--json", "report.json"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("5 tests: 4 passed, 0 differed, 1 unsupported, 0 failed"));
  EXPECT_THAT(result.out, HasSubstr("has no batch to cut over the mesh 1x2"));
  const ToolResult alone =
      tool({"verify", node_test("test_basic_conv_with_padding/model.onnx"), "--data",
            node_test("test_basic_conv_with_padding"), "--mesh", "1x2", "--auto", "data"});
  EXPECT_EQ(alone.code, 1);
  EXPECT_THAT(alone.out, AllOf(HasSubstr("unsupported"), HasSubstr("[1,1,5,5]")));
  const ToolResult tensor =
      tool({"verify", "--data", "tests", "--mesh", "1x2", "--auto", "tensor"});
  EXPECT_THAT(tensor.out, HasSubstr("5 tests: 0 passed, 0 differed, 5 unsupported, 0 failed"));
  EXPECT_THAT(tensor.out, HasSubstr("has no products to cut into 2 parts over the mesh 1x2"));
}

TEST_F(MeshModels, CutsThatCantBeSayBothSidesAndTheRemedy) {
  const std::string model = node_test("test_matmul_2d/model.onnx");
  const auto refused = [&](const std::vector<std::string>& options, int code) {
    const ToolResult result = tool(with({"run", model}, options));
    EXPECT_EQ(result.code, code) << ::testing::PrintToString(options) << result.out;
    return result.err;
  };
  EXPECT_THAT(refused({"--mesh", "1x2", "--shard", "a=2"}, 1),
              AllOf(HasSubstr("has no dim 2"), HasSubstr("its dims are 0 to 1")));
  EXPECT_THAT(refused({"--mesh", "1x2", "--shard", "a=0@2"}, 1),
              AllOf(HasSubstr("mesh 1x2 has no axis 2"), HasSubstr("its axes are 0 to 1")));
  EXPECT_THAT(refused({"--mesh", "1x2", "--shard", "q=0"}, 2),
              AllOf(HasSubstr("nothing has that name"), HasSubstr("a, b")));
  EXPECT_THAT(refused({"--mesh", "1x2", "--shard", "a=0@1", "--shard", "a=1@1"}, 1),
              AllOf(HasSubstr("dim 0"), HasSubstr("dim 1"), HasSubstr("name one")));
  EXPECT_THAT(refused({"--mesh", "1x2", "--auto", "data,tensor"}, 1),
              AllOf(HasSubstr("two axes"), HasSubstr("1x2")));
  EXPECT_THAT(refused({"--mesh", "1x2", "--auto", "magic"}, 2),
              AllOf(HasSubstr("magic"), HasSubstr("data and tensor")));
}

TEST_F(MeshTool, ABinaryRunsOnAMeshOfItsShapeAlone) {
  const std::string binary = save_tensor();
  EXPECT_EQ(tool({"run", binary, "--mesh", "1x2"}).code, 0);
  for (const char* mesh : {"1x1", "2x1", "2", "2x2"}) {
    const ToolResult result = tool({"run", binary, "--mesh", mesh});
    EXPECT_EQ(result.code, 1) << mesh;
    EXPECT_THAT(result.err, AllOf(HasSubstr("is for a mesh of 1x2"), HasSubstr(mesh),
                                  HasSubstr("compile it with")));
  }
  const ToolResult compiled = tool({"run", binary, "--auto", "data"});
  EXPECT_EQ(compiled.code, 2);
  EXPECT_THAT(compiled.err, HasSubstr("compiled already"));
}

}  // namespace
}  // namespace tilemesh::cli
