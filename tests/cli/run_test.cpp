#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "tool.hpp"

namespace tilemesh::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Run : public ToolTest {};

TEST_F(Run, GivesTheRightValues) {
  const std::string binary = save_program("a.tmb");
  const ToolResult result =
      tool({"run", binary, "--input", "x=" + save_array("x.npy", {2, 3}), "--input",
            "b=" + save_array("b.npy", {3}, 10), "--output-dir", "out"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(floats("out/y.npy"), ElementsAre(11, 15, 19, 17, 21, 25));
  // A name is made fit for a file; the state began as zeros.
  EXPECT_THAT(floats("out/next_sum.npy"), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(result.out, HasSubstr("f32[2,3]"));
  EXPECT_THAT(result.out, HasSubstr("dram"));
  EXPECT_THAT(result.out, HasSubstr("time"));
}

TEST_F(Run, MakesRandomInputsAndSaysSo) {
  const std::string binary = save_program("a.tmb");
  const ToolResult first = tool({"run", binary, "--output-dir", "first", "--repeat", "3"});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("random"));
  EXPECT_THAT(first.out, HasSubstr("seed 0"));
  EXPECT_THAT(first.out, HasSubstr("3 runs"));
  EXPECT_EQ(tool({"run", binary, "--output-dir", "again"}).code, 0);
  EXPECT_EQ(tool({"run", binary, "--output-dir", "other", "--seed", "1"}).code, 0);
  EXPECT_EQ(floats("first/y.npy"), floats("again/y.npy"));
  EXPECT_NE(floats("first/y.npy"), floats("other/y.npy"));
}

TEST_F(Run, PrintsJson) {
  const ToolResult result = tool({"run", save_program("a.tmb"), "--json", "--repeat", "2"});
  EXPECT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["program"], "axpb");
  EXPECT_EQ(json["time"]["runs"], 2);
  EXPECT_EQ(json["outputs"][0]["shape"], nlohmann::json({2, 3}));
  EXPECT_EQ(json["outputs"][0]["space"], "dram");
  EXPECT_EQ(json["inputs"][2]["from"], "zeros");
}

TEST_F(Run, ProfilesOps) {
  ProgramBuilder builder("two_ops");
  const auto x = builder.input("x", {.shape = {3, 3}});
  builder.output("y", builder.softmax(builder.matmul(x, x), 1));
  compile({builder.build()}, {}).save(path("two.tmb"));
  const ToolResult text = tool({"run", "two.tmb", "--profile"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("share"));
  const ToolResult result = tool({"run", "two.tmb", "--profile", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  const auto profile = nlohmann::json::parse(result.out)["profile"];
  ASSERT_EQ(profile.size(), 2U);
  EXPECT_EQ(profile[0]["op"], "matmul");
  EXPECT_EQ(profile[1]["op"], "softmax");
  EXPECT_EQ(profile[1]["first"], 1);
  EXPECT_NEAR(profile[0]["share"].get<double>() + profile[1]["share"].get<double>(), 1, 1e-9);
  const ToolResult state = tool({"run", save_program("a.tmb"), "--profile"});
  EXPECT_EQ(state.code, 1);
  EXPECT_THAT(state.err, HasSubstr("next/sum"));
}

TEST_F(Run, SaysWhatIsWrongWithInputs) {
  const std::string binary = save_program("a.tmb");
  const std::string b = "b=" + save_array("b.npy", {3});
  const auto message = [&](const std::string& x, int code = 1) {
    const ToolResult result = tool({"run", binary, "--input", x, "--input", b});
    EXPECT_EQ(result.code, code) << result.out;
    return result.err;
  };
  EXPECT_THAT(message("z=" + save_array("x.npy", {2, 3}), 2),
              HasSubstr("no input \"z\"; it has \"x\""));
  EXPECT_THAT(message("x=" + save_array("x.npy", {3, 2})),
              HasSubstr("input \"x\" of program \"axpb\" wants f32[2,3], got f32[3,2]"));
  EXPECT_THAT(message("x=" + save_array("x.npy", {6})), HasSubstr("got f32[6]"));
  EXPECT_THAT(message("x=" + save_array("x.npy", {2, 3}, 0, DType::f64)),
              HasSubstr("got f64[2,3]"));
  EXPECT_THAT(message("x=none.npy"), HasSubstr("none.npy"));
  write(path("empty.npy"), "");
  EXPECT_THAT(message("x=empty.npy"), HasSubstr("\"empty.npy\": it is empty"));
  const ToolResult missing = tool({"run", binary, "--input", b});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("no array for its input \"x\""));
  EXPECT_EQ(tool({"run", binary, "--input", b, "--input", b}).code, 2);
}

TEST_F(Run, SaysWhatIsWrongWithFiles) {
  EXPECT_THAT(tool({"run", "none.tmb"}).err, HasSubstr("none.tmb"));
  EXPECT_THAT(tool({"run", "none.onnx"}).err, HasSubstr("none.onnx"));
  write(path("empty.tmb"), "");
  write(path("empty.onnx"), "");
  EXPECT_THAT(tool({"run", "empty.tmb"}).err, HasSubstr("empty"));
  EXPECT_THAT(tool({"run", "empty.onnx"}).err, HasSubstr("empty.onnx"));
  const std::string whole = read(save_program("a.tmb"));
  for (const std::size_t size : {10UL, 63UL, 64UL, 1000UL, whole.size() - 1}) {
    write(path("cut.tmb"), whole.substr(0, size));
    const ToolResult result = tool({"run", "cut.tmb"});
    EXPECT_EQ(result.code, 1) << size;
    EXPECT_THAT(result.err, HasSubstr("\"cut.tmb\""));
  }
  EXPECT_EQ(tool({"run", "."}).code, 1);
}

TEST_F(Run, NamesProgramsAndMeshesThatDoNotFit) {
  const std::string binary = save_program("a.tmb");
  const ToolResult none = tool({"run", binary, "--program", "other"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("\"axpb\""));
  const ToolResult mesh = tool({"run", binary, "--mesh", "1x2"});
  EXPECT_EQ(mesh.code, 1);
  EXPECT_THAT(mesh.err, HasSubstr("1x1"));
  EXPECT_THAT(mesh.err, HasSubstr("1x2"));
  EXPECT_EQ(tool({"run", binary, "--dim", "n=1"}).code, 2);
}

TEST_F(Run, AnOutputFolderThatCantBeIsAnError) {
  write(path("file"), "");
  const ToolResult result = tool({"run", save_program("a.tmb"), "--output-dir", "file/out"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("file/out"));
}

#ifndef __SANITIZE_ADDRESS__  // whose shadow takes more than any such limit
TEST_F(Run, FitsALimitOfTheProcess) {
  const ToolResult result = tool({"run", save_program("a.tmb")}, [] {
    const rlimit limit{rlim_t{4} << 30, rlim_t{4} << 30};
    ::setrlimit(RLIMIT_AS, &limit);
  });
  EXPECT_EQ(result.code, 0) << result.err;
}
#endif

TEST_F(Run, CompilesModelsInMemory) {
  SKIP_WITHOUT_NODE_TESTS();
  const std::string model = node_test("test_add/model.onnx");
  for (const char* mesh : {"1x1", "1x2"}) {
    const ToolResult result = tool({"run", model, "--mesh", mesh});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("f32[3,4,5]"));
  }
  const ToolResult sharded = tool(
      {"run", model, "--mesh", "1x2", "--shard", "x=0", "--shard", "y=0", "--space", "sum=host"});
  EXPECT_EQ(sharded.code, 0) << sharded.err;
  EXPECT_THAT(sharded.out, HasSubstr("shard 0"));
  EXPECT_THAT(sharded.out, HasSubstr("host"));
  const ToolResult unknown = tool({"run", model, "--shape", "q=1"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("no model has an input \"q\""));
}

TEST_F(Run, AnInputWhoseValueShapesDependOnIsTakenAsAValue) {
  SKIP_WITHOUT_NODE_TESTS();
  const std::string test = node_test("test_reshape_allowzero_reordered");
  const ToolResult result =
      tool({"verify", test + "/model.onnx", "--data", test + "/test_data_set_0"});
  EXPECT_EQ(result.code, 0) << result.err << result.out;
}

}  // namespace
}  // namespace tilemesh::cli
