#include <nlohmann/json.hpp>

#include "tool.hpp"

namespace tilemesh::cli {
namespace {

using ::testing::HasSubstr;

/// Copies of node tests, broken in various ways.
class VerifyTool : public ToolTest {
 protected:
  void SetUp() override { SKIP_WITHOUT_NODE_TESTS(); }

  void copy_test(const std::string& test, const std::string& as) const {
    std::filesystem::create_directories(path("tests"));
    std::filesystem::copy(node_test(test), path("tests/" + as),
                          std::filesystem::copy_options::recursive);
  }
};

TEST_F(VerifyTool, PassesWhatIsRight) {
  const std::string test = node_test("test_softmax_axis_1");
  for (const std::string& data : {test, test + "/test_data_set_0"}) {
    for (const char* mesh : {"1x1", "2x2"}) {
      const ToolResult result =
          tool({"verify", test + "/model.onnx", "--data", data, "--mesh", mesh});
      EXPECT_EQ(result.code, 0) << result.err;
      EXPECT_THAT(result.out, HasSubstr("passed"));
      EXPECT_THAT(result.out, HasSubstr("largest error"));
    }
  }
}

TEST_F(VerifyTool, EndsInThreeOnAMismatch) {
  const std::string model = node_test("test_relu/model.onnx");
  const std::string data = node_test("test_abs/test_data_set_0");
  const ToolResult result = tool({"verify", model, "--data", data, "--json", "-"});
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_THAT(result.out, HasSubstr("elements differ"));
  EXPECT_EQ(tool({"verify", model, "--data", data, "--atol", "100"}).code, 0);
}

TEST_F(VerifyTool, SaysWhatDataItMisses) {
  const std::string model = node_test("test_relu/model.onnx");
  EXPECT_EQ(tool({"verify", model, "--data", "none"}).code, 1);
  std::filesystem::create_directories(path("empty"));
  const ToolResult result = tool({"verify", model, "--data", "empty"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("test_data_set_0"));
  EXPECT_THAT(tool({"verify", "--data", "empty"}).err, HasSubstr("model.onnx"));
}

TEST_F(VerifyTool, RunsAFolderOfTestsAndReportsEach) {
  copy_test("test_relu", "good");
  copy_test("test_relu", "wrong");
  std::filesystem::copy_file(node_test("test_abs/test_data_set_0/output_0.pb"),
                             path("tests/wrong/test_data_set_0/output_0.pb"),
                             std::filesystem::copy_options::overwrite_existing);
  copy_test("test_bernoulli", "unknown_op");
  copy_test("test_relu", "broken_model");
  write(path("tests/broken_model/model.onnx"), "garbage");
  copy_test("test_relu", "broken_data");
  write(path("tests/broken_data/test_data_set_0/input_0.pb"), "garbage");
  copy_test("test_relu", "no_data");
  std::filesystem::remove_all(path("tests/no_data/test_data_set_0"));

  const ToolResult result = tool({"verify", "--data", "tests", "--json", "report.json"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("6 tests: 1 passed, 1 differed, 1 unsupported, 3 failed"));
  std::map<std::string, nlohmann::json> by_name;
  for (const auto& entry : nlohmann::json::parse(read(path("report.json")))) {
    by_name[entry["name"]] = entry;
  }
  ASSERT_EQ(by_name.size(), 6U);
  EXPECT_EQ(by_name["good"]["status"], "passed");
  EXPECT_EQ(by_name["good"]["max_error"], 0);
  EXPECT_EQ(by_name["wrong"]["status"], "differed");
  EXPECT_GT(by_name["wrong"]["max_error"], 0);
  EXPECT_EQ(by_name["unknown_op"]["status"], "unsupported");
  EXPECT_THAT(by_name["unknown_op"]["reason"].get<std::string>(), HasSubstr("Bernoulli"));
  for (const char* name : {"broken_model", "broken_data", "no_data"}) {
    EXPECT_EQ(by_name[name]["status"], "failed") << name;
    EXPECT_NE(by_name[name]["reason"], "");
  }
}

TEST_F(VerifyTool, AMismatchInAFolderEndsInThreeAndUnsupportedInZero) {
  copy_test("test_relu", "good");
  copy_test("test_bernoulli", "unknown_op");
  EXPECT_EQ(tool({"verify", "--data", "tests"}).code, 0);
  copy_test("test_relu", "wrong");
  std::filesystem::copy_file(node_test("test_abs/test_data_set_0/output_0.pb"),
                             path("tests/wrong/test_data_set_0/output_0.pb"),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(tool({"verify", "--data", "tests"}).code, 3);
}

}  // namespace
}  // namespace tilemesh::cli
