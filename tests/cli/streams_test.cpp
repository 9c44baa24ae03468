#include <csignal>

#include <fcntl.h>

#include "tool.hpp"

namespace tilemesh::cli {
namespace {

/// Standard streams that are closed, full or broken: an exit code, whatever happens.
class Streams : public ToolTest {
 protected:
  static void put(const char* file, int stream) {
    const int opened = ::open(file, O_WRONLY);
    ::dup2(opened, stream);
    ::close(opened);
  }
  /// Stdout is a pipe that nobody reads.
  static void break_stdout() {
    int ends[2];
    if (::pipe(ends) == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]);
      ::close(ends[1]);
    }
  }
};

TEST_F(Streams, AnErrorThatCantBeSaidIsStillTheExitCode) {
  const std::vector<std::pair<std::vector<std::string>, int>> lines = {
      {{"inspect", "none.tmb"}, 1},
      {{"run", "none.onnx"}, 1},
      {{"fly"}, 2},
      {{}, 2},
      {{"run"}, 2},
      {{"plan", "none.tmb", "--x"}, 2}};
  for (const auto& [line, code] : lines) {
    EXPECT_EQ(tool(line, [] { ::close(STDERR_FILENO); }).code, code);
    EXPECT_EQ(tool(line, [] { put("/dev/full", STDERR_FILENO); }).code, code);
    EXPECT_EQ(tool(line, [] { ::close(STDOUT_FILENO); }).code, code);
    const auto close_all = [] {
      ::close(STDIN_FILENO);
      ::close(STDOUT_FILENO);
      ::close(STDERR_FILENO);
    };
    EXPECT_EQ(tool(line, close_all).code, code);
  }
}

TEST_F(Streams, OutputThatIsLostIsAFailure) {
  const std::string binary = save_program("a.tmb");
  const std::vector<std::vector<std::string>> lines = {{"--help"},
                                                       {"--version"},
                                                       {"inspect", binary},
                                                       {"query"},
                                                       {"plan", binary},
                                                       {"run", binary, "--json"},
                                                       {"check", binary + ":y", binary + ":x"}};
  for (const auto& line : lines) {
    EXPECT_EQ(tool(line).code, 0);
    EXPECT_EQ(tool(line, [] { ::close(STDOUT_FILENO); }).code, 1) << line[0];
    EXPECT_EQ(tool(line, break_stdout).code, 1) << line[0];
    const ToolResult full = tool(line, [] { put("/dev/full", STDOUT_FILENO); });
    EXPECT_EQ(full.code, 1) << line[0];
    EXPECT_THAT(full.err, ::testing::HasSubstr("standard output: No space left")) << line[0];
  }
  EXPECT_EQ(tool({"inspect", binary}, break_stdout).err, "");  // the reader knows
}

TEST_F(Streams, AClosedStreamDoesntBecomeAFile) {
  // Without care the binary's file would get the number of stderr, and errors would go into it.
  const std::string model = save_model("a.onnx");
  const ToolResult result = tool({"compile", model, "-o", "o.tmb"}, [] {
    ::close(STDIN_FILENO);
    ::close(STDOUT_FILENO);
    ::close(STDERR_FILENO);
  });
  EXPECT_EQ(result.code, 1);  // what it had to say is lost
  EXPECT_EQ(tool({"run", "o.tmb"}).code, 0);
}

}  // namespace
}  // namespace tilemesh::cli
