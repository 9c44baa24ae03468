#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include "tilemesh/tilemesh.hpp"

#include "npy.hpp"
#include "onnx_model.hpp"

namespace tilemesh::cli {

/// How a run of the tool ended.
struct ToolResult {
  int code = -1;  ///< of exit, or minus the signal
  std::string out;
  std::string err;
};

/// A folder of its own, and the tool run in it.
class ToolTest : public ::testing::Test {
 protected:
  ToolTest() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              ("tilemesh_tool_" + std::to_string(::getpid()) + "_" + test->name());
    std::filesystem::create_directories(folder_);
  }
  ~ToolTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  ToolResult tool(const std::vector<std::string>& arguments) const {
    return tool(arguments, [] {});
  }
  /// `prepare` is called in the child, once its streams are in place.
  ToolResult tool(const std::vector<std::string>& arguments,
                  const std::function<void()>& prepare) const {
    int status = 0;
    ::waitpid(start(arguments, prepare), &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), read(path("stdout.txt")),
            read(path("stderr.txt"))};
  }
  /// The tool's process; whatever hangs ends by a signal.
  pid_t start(const std::vector<std::string>& arguments,
              const std::function<void()>& prepare) const {
    constexpr unsigned kSeconds = 120;
    const std::string out = path("stdout.txt");
    const std::string err = path("stderr.txt");
    std::vector<char*> words;
    std::string program = TILEMESH_TOOL;
    std::vector<std::string> copies = arguments;
    words.push_back(program.data());
    for (std::string& argument : copies) {
      words.push_back(argument.data());
    }
    words.push_back(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      const bool ready = ::chdir(folder_.c_str()) == 0 &&
                         std::freopen(out.c_str(), "w", stdout) != nullptr &&
                         std::freopen(err.c_str(), "w", stderr) != nullptr;
      if (ready) {
        ::alarm(kSeconds);
        prepare();
        ::execv(words[0], words.data());
      }
      ::_exit(127);
    }
    return child;
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  static std::string read(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  static void write(const std::string& file, const std::string& text) {
    std::ofstream(file, std::ios::binary) << text;
  }

  /// y = x * 2 + b, sum = sum + x in place; saved as `name`.
  std::string save_program(const std::string& name, const std::string& program = "axpb") const {
    ProgramBuilder builder(program);
    const auto x = builder.input("x", {.shape = {2, 3}});
    const auto b = builder.input("b", {.shape = {3}}, InputKind::parameter);
    const auto sum = builder.input("sum", {.shape = {2, 3}}, InputKind::state);
    const auto bias = builder.constant(std::vector<float>{1, 2, 3}, {3});
    builder.output("y", builder.add(builder.mul(x, builder.constant(2.0F)), builder.add(b, bias)));
    builder.output("next/sum", builder.add(sum, x), {.alias = sum});
    compile({builder.build()}, {}).save(path(name));
    return path(name);
  }

  /// y = relu(x) of f32[3], as a model.
  std::string save_model(const std::string& name) const {
    OnnxModel model;
    model.input("x");
    model.node("Relu", {"x"}, "y");
    model.output("y");
    write(path(name), model.bytes());
    return path(name);
  }

  std::string save_array(const std::string& name, const Shape& shape, float first = 0,
                         DType dtype = DType::f32) const {
    HostArray array{dtype, shape, {}};
    array.bytes.resize(static_cast<std::size_t>(shape.element_count() * size_of(dtype)));
    if (dtype == DType::f32) {
      for (std::int64_t i = 0; i < shape.element_count(); ++i) {
        const float value = first + static_cast<float>(i);
        std::memcpy(array.bytes.data() + 4 * i, &value, 4);
      }
    }
    write_npy(path(name), array);
    return path(name);
  }

  std::vector<float> floats(const std::string& file) const {
    const HostArray array = read_npy(path(file));
    std::vector<float> values(array.bytes.size() / 4);
    std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
    return values;
  }

  /// A model of the ONNX node tests; skips the test if they aren't installed.
  static std::string node_test(const std::string& name) {
    return std::string(TILEMESH_NODE_TESTS) + "/" + name;
  }

 private:
  std::filesystem::path folder_;
};

#define SKIP_WITHOUT_NODE_TESTS()                                                     \
  if (!std::filesystem::exists(TILEMESH_NODE_TESTS)) {                                \
    GTEST_SKIP() << "needs the package libonnx-testdata, at " << TILEMESH_NODE_TESTS; \
  }

}  // namespace tilemesh::cli
