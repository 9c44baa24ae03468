#include <csignal>

#include <sys/resource.h>

#include "tool.hpp"

namespace tilemesh::cli {
namespace {

using ::testing::HasSubstr;

/// Files that can't be written to their end.
class Disk : public ToolTest {
 protected:
  std::vector<std::string> names(const std::string& folder) const {
    std::vector<std::string> result;
    for (const auto& entry : std::filesystem::directory_iterator(path(folder))) {
      result.push_back(entry.path().filename().string());
    }
    return result;
  }
  /// y = max x + a constant of 16 MiB, as a model in a folder of its own.
  std::string save_large_model() const {
    std::filesystem::create_directories(path("model"));
    OnnxModel model;
    model.input("x");
    model.external("w", "w.bin", 1 << 22);
    model.node("ReduceMax", {"x"}, "m");
    model.node("Add", {"m", "w"}, "y");
    model.output("y");
    write(path("model/large.onnx"), model.bytes());
    std::ofstream(path("model/w.bin")) << "";
    std::filesystem::resize_file(path("model/w.bin"), 1 << 24);
    return path("model/large.onnx");
  }
};

TEST_F(Disk, AFullOneLeavesNothingHalf) {
  const auto full = [] {
    const rlimit limit{100, 100};  // bytes a file
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::freopen("/dev/null", "w", stdout);
    std::freopen("/dev/null", "w", stderr);
  };
  const std::string binary = save_program("a.tmb");
  std::filesystem::create_directory(path("out"));
  write(path("out/y.npy"), "old");
  EXPECT_EQ(tool({"run", binary, "--output-dir", "out"}, full).code, 1);
  EXPECT_EQ(names("out"), std::vector<std::string>{"y.npy"});
  EXPECT_EQ(read(path("out/y.npy")), "old");
  const std::string model = save_model("a.onnx");
  std::filesystem::create_directory(path("binaries"));
  EXPECT_EQ(tool({"compile", model, "-o", "binaries/o.tmb"}, full).code, 1);
  EXPECT_TRUE(names("binaries").empty());
}

TEST_F(Disk, ASignalDuringASaveLeavesNothing) {
  const std::string model = save_large_model();
  std::filesystem::create_directory(path("out"));
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    const pid_t child = start({"compile", model, "-o", "out/o.tmb"}, [] {});
    int status = 0;
    while (names("out").empty() && ::waitpid(child, &status, WNOHANG) == 0) {
      ::usleep(100);
    }
    ::kill(child, signal);
    ::waitpid(child, &status, 0);
    for (const std::string& name : names("out")) {
      EXPECT_EQ(name, "o.tmb") << "after signal " << signal;  // it came too late
      EXPECT_EQ(tool({"inspect", "out/o.tmb"}).code, 0);
      std::filesystem::remove(path("out/o.tmb"));
    }
  }
}

TEST_F(Disk, AnOutputThatIsTheModelIsRefused) {
  const std::string model = save_model("a.onnx");
  std::filesystem::create_symlink("a.onnx", path("link.onnx"));
  const std::string before = read(model);
  for (const char* output : {"a.onnx", "./a.onnx", "link.onnx"}) {
    const ToolResult result = tool({"compile", model, "-o", output});
    EXPECT_EQ(result.code, 2) << output;
    EXPECT_THAT(result.err, HasSubstr("that is the model"));
  }
  EXPECT_EQ(read(model), before);
}

}  // namespace
}  // namespace tilemesh::cli
