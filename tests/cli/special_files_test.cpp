#include <sys/stat.h>

#include "tool.hpp"

namespace tilemesh::cli {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

/// Pipes, devices, folders and sockets wherever a file is wanted: refused at once.
class SpecialFiles : public ToolTest {
 protected:
  void SetUp() override {
    binary_ = save_program("a.tmb");
    model_ = save_model("a.onnx");
    for (const char* name : {"pipe", "pipe.tmb", "pipe.onnx", "pipe.npy", "pipe.npz", "pipe.pb"}) {
      ASSERT_EQ(::mkfifo(path(name).c_str(), 0600), 0);
    }
    for (const char* name : {"folder", "folder.tmb", "folder.onnx", "folder.npy", "folder.npz"}) {
      std::filesystem::create_directory(path(name));
    }
    std::filesystem::create_symlink("/dev/zero", path("zero.tmb"));
    std::filesystem::create_symlink("/dev/zero", path("zero.onnx"));
    std::filesystem::create_symlink("/dev/zero", path("zero.npy"));
  }

  std::string write_set() const {
    std::filesystem::create_directories(path("set"));
    write(path("set/input_0.pb"), OnnxModel::tensor({1, 2, 3}));
    write(path("set/output_0.pb"), OnnxModel::tensor({1, 2, 3}));
    return path("set");
  }
  void expect_refused(const std::vector<std::string>& line) const {
    const ToolResult result = tool(line);
    EXPECT_EQ(result.code, 1) << ::testing::PrintToString(line) << result.out << result.err;
    EXPECT_THAT(result.err + result.out,
                AnyOf(HasSubstr("no regular file"), HasSubstr("can't read the folder")))
        << ::testing::PrintToString(line);
  }

  std::string binary_;
  std::string model_;
};

TEST_F(SpecialFiles, AsModelsAndBinaries) {
  for (const std::string kind : {"pipe", "folder", "zero"}) {
    expect_refused({"compile", kind + ".onnx", "-o", "o.tmb"});
    expect_refused({"compile", model_, kind + ".onnx", "-o", "o.tmb"});
    for (const char* suffix : {".onnx", ".tmb"}) {
      expect_refused({"run", kind + suffix});
      expect_refused({"verify", kind + suffix, "--data", write_set()});
    }
    expect_refused({"inspect", kind + ".tmb"});
    expect_refused({"plan", kind + ".tmb"});
    expect_refused({"check", kind + ".tmb:y", binary_ + ":x"});
    expect_refused({"check", binary_ + ":y", kind + ".tmb:x"});
    EXPECT_FALSE(std::filesystem::exists(path("o.tmb")));
  }
}

TEST_F(SpecialFiles, AsData) {
  for (const char* file : {"pipe", "pipe.npy", "pipe.npz", "pipe.pb", "folder.npy", "folder.npz",
                           "/dev/zero", "zero.npy", "/dev/stdin"}) {
    expect_refused({"run", binary_, "--input", std::string("x=") + file});
    expect_refused({"run", model_, "--input", std::string("x=") + file});
    expect_refused({"compile", model_, "-o", "o.tmb", "--value", std::string("x=") + file});
    expect_refused({"compile", model_, "-o", "o.tmb", "--target", file});
  }
  for (const char* data : {"pipe.npz", "pipe"}) {
    const ToolResult result = tool({"verify", model_, "--data", data});
    EXPECT_EQ(result.code, 1) << result.out << result.err;
  }
  // A file of the kernel that says it is empty, and isn't.
  EXPECT_EQ(tool({"run", binary_, "--input", "x=/proc/self/maps"}).code, 1);
  EXPECT_EQ(tool({"inspect", "/proc/self/maps"}).code, 1);
  EXPECT_EQ(tool({"run", "/proc/self/maps"}).code, 1);
}

TEST_F(SpecialFiles, AsDataBesideTheModel) {
  std::filesystem::create_directories(path("tests/one/test_data_set_0"));
  write(path("tests/one/test_data_set_0/output_0.pb"), OnnxModel::tensor({0, 0, 0}));
  ASSERT_EQ(::mkfifo(path("tests/one/model.onnx").c_str(), 0600), 0);
  const ToolResult result = tool({"verify", "--data", "tests"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("it is a pipe"));
  OnnxModel model;
  model.external("w", "pipe");
  model.node("Identity", {"w"}, "y");
  model.output("y");
  write(path("external.onnx"), model.bytes());
  expect_refused({"compile", "external.onnx", "-o", "o.tmb"});
}

TEST_F(SpecialFiles, AsOutputs) {
  std::filesystem::create_directory(path("out"));
  ASSERT_EQ(::mkfifo(path("out/y.npy").c_str(), 0600), 0);
  for (const char* file : {"pipe", "folder", "/dev/full", "/dev/null"}) {
    expect_refused({"compile", model_, "-o", file});
    expect_refused({"verify", model_, "--data", write_set(), "--json", file});
  }
  expect_refused({"run", binary_, "--output-dir", "out"});
  EXPECT_EQ(tool({"run", binary_, "--output-dir", "pipe"}).code, 1);
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));
  EXPECT_FALSE(std::filesystem::exists(path("out/next_sum.npy")));
}

}  // namespace
}  // namespace tilemesh::cli
