#include "tool.hpp"

namespace tilemesh::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A model as hubs lay it out: model and weights are links into a folder of blobs.
class DataRoot : public ToolTest {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(path("hub/blobs"));
    std::filesystem::create_directories(path("hub/snapshots/x"));
    OnnxModel model;
    model.input("x");
    model.external("w", "w.bin");
    model.node("Add", {"x", "w"}, "y");
    model.output("y");
    write(path("hub/blobs/1"), model.bytes());
    const std::vector<float> weights = {10, 20, 30};
    write(path("hub/blobs/2"), {reinterpret_cast<const char*>(weights.data()), 12});
    std::filesystem::create_symlink("../../blobs/1", path(kModel));
    std::filesystem::create_symlink("../../blobs/2", path("hub/snapshots/x/w.bin"));
    save_array("x.npy", {3}, 1);
  }

  static constexpr const char* kModel = "hub/snapshots/x/model.onnx";
};

TEST_F(DataRoot, IsNamedByTheRefusal) {
  const std::string blobs = std::filesystem::canonical(path("hub/blobs")).string();
  for (const auto& line :
       std::vector<std::vector<std::string>>{{"run", kModel}, {"compile", kModel, "-o", "o.tmb"}}) {
    const ToolResult result = tool(line);
    EXPECT_EQ(result.code, 1) << result.out;
    EXPECT_THAT(result.err, AllOf(HasSubstr("\"w.bin\""), HasSubstr("--data-root " + blobs)));
  }
  EXPECT_FALSE(std::filesystem::exists(path("o.tmb")));
}

TEST_F(DataRoot, LetsLinksLeadThere) {
  for (const char* root : {"hub", "hub/blobs", "."}) {
    const ToolResult result =
        tool({"run", kModel, "--data-root", root, "--input", "x=x.npy", "--output-dir", "out"});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(floats("out/y.npy"), ElementsAre(11, 22, 33));
  }
  EXPECT_EQ(tool({"compile", kModel, "-o", "o.tmb", "--data-root", "hub"}).code, 0);
  EXPECT_EQ(tool({"run", "o.tmb"}).code, 0);
  std::filesystem::create_directories(path("set"));
  write(path("set/input_0.pb"), OnnxModel::tensor({1, 2, 3}));
  write(path("set/output_0.pb"), OnnxModel::tensor({11, 22, 33}));
  EXPECT_EQ(tool({"verify", kModel, "--data", "set", "--data-root", "hub"}).code, 0);
  EXPECT_EQ(tool({"verify", kModel, "--data", "set"}).code, 1);
}

TEST_F(DataRoot, IsTheOnlyOtherPlace) {
  write(path("secret"), "0123456789ab");
  const auto refused = [&](const std::string& location, const std::vector<std::string>& more) {
    OnnxModel model;
    model.external("w", location);
    model.node("Identity", {"w"}, "y");
    model.output("y");
    write(path("hub/own.onnx"), model.bytes());
    std::vector<std::string> line = {"compile", "hub/own.onnx", "-o", "o.tmb"};
    line.insert(line.end(), more.begin(), more.end());
    const ToolResult result = tool(line);
    EXPECT_EQ(result.code, 1) << location;
    return result.err;
  };
  for (const std::string& location :
       {std::string("../secret"), path("secret"), std::string("blobs/../../secret")}) {
    EXPECT_THAT(refused(location, {}), HasSubstr("--data-root"));
    EXPECT_THAT(refused(location, {"--data-root", "hub/blobs"}), HasSubstr("out of the model's"));
  }
  EXPECT_THAT(refused("../secret", {"--data-root", "nowhere"}), HasSubstr("nowhere"));
  EXPECT_EQ(tool({"compile", "hub/own.onnx", "-o", "o.tmb", "--data-root", "."}).code, 0);
}

}  // namespace
}  // namespace tilemesh::cli
