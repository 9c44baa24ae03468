#include <nlohmann/json.hpp>

#include "tilemesh/base/printable.hpp"

#include "tool.hpp"

namespace tilemesh::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

/// Names that a file chose: what they do to the terminal and to the disk.
class Names : public ToolTest {
 protected:
  /// Each output a relu of the one input.
  std::string save(const std::string& file, const std::string& input,
                   const std::vector<std::string>& outputs) const {
    OnnxModel model;
    model.input(input);
    for (const std::string& output : outputs) {
      model.node("Relu", {input}, output, "node of " + output);
      model.output(output);
    }
    model.metadata("key\x1b[31m", "v\n\x1b[2J");
    write(path(file), model.bytes());
    return path(file);
  }

  /// Nothing that steers a terminal, and no line that a name wrote.
  void expect_clean(const std::vector<std::string>& line, int code) const {
    const ToolResult result = tool(line);
    EXPECT_EQ(result.code, code) << ::testing::PrintToString(line) << result.err;
    for (const std::string& text : {result.out, result.err}) {
      EXPECT_EQ(text, printable(text)) << ::testing::PrintToString(line);
      EXPECT_THAT(text, Not(HasSubstr("\nfake")));
    }
  }

  std::vector<std::string> files_in(const std::string& folder) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path(folder))) {
      names.push_back(entry.path().lexically_relative(path(folder)).string());
    }
    return names;
  }
};

const std::vector<std::string> kHostile = {"y\x1b[31mRED\x1b[0m\nfake line: tilemesh: ok",
                                           "z\x07\x1b]0;title\x07",
                                           "w\x9b"
                                           "31m",
                                           "v\u202egnp.exe",
                                           "u\u009b31m",
                                           "t\rOVER",
                                           "\xff\xfe",
                                           "\u2066s\u2028fake"};

TEST_F(Names, NeverReachTheTerminalRaw) {
  const std::string model = save("a.onnx", "x\x1b[2J\nfake", kHostile);
  expect_clean({"compile", model, "-o", "a.tmb"}, 0);
  expect_clean({"compile", model, "-o", "b.tmb", "--json"}, 0);
  for (const char* binary : {"a.tmb", "a.onnx"}) {
    expect_clean({"run", binary}, 0);
    expect_clean({"run", binary, "--json", "--output-dir", "out"}, 0);
    expect_clean({"run", binary, "--profile"}, 0);
    expect_clean({"run", binary, "--input", "q=none.npy"}, 1);
  }
  expect_clean({"inspect", "a.tmb"}, 0);
  expect_clean({"inspect", "a.tmb", "--json"}, 0);
  expect_clean({"inspect", "a.tmb", "--values"}, 0);
  expect_clean({"plan", "a.tmb"}, 0);
  expect_clean({"plan", "a.tmb", "--json"}, 0);
  expect_clean({"plan", "a.tmb", "--dram", "1B"}, 1);
  for (const std::string& output : kHostile) {
    expect_clean({"inspect", "a.tmb", "--explain", output}, 0);
    expect_clean({"check", "a.tmb:" + output, "a.tmb:x\x1b[2J\nfake"}, 0);
    expect_clean({"check", "a.tmb:" + output, "a.tmb:x\x1b[2J\nfake", "--json"}, 0);
    expect_clean({"inspect", "a.tmb", "--explain", output + "?"}, 2);
    expect_clean({"inspect", "none" + output + ".tmb"}, 1);
    expect_clean({"run", "none" + output + ".onnx"}, 1);
    expect_clean({"fly" + output}, 2);
  }
}

TEST_F(Names, OfFilesNeverReachTheTerminalRaw) {
  const std::string file = "m\xff\x1b[31m\nfake";
  const std::string model = save(file + ".onnx", "x", {"y"});
  expect_clean({"compile", model, "-o", file + ".tmb"}, 0);
  expect_clean({"inspect", file + ".tmb"}, 0);
  expect_clean({"inspect", file + ".tmb", "--json"}, 0);
  expect_clean({"run", file + ".tmb"}, 0);
  std::filesystem::create_directories(path(file + "/" + file + "/test_data_set_0"));
  write(path(file + "/" + file + "/model.onnx"), "garbage");
  write(path(file + "/" + file + "/test_data_set_0/output_0.pb"), "garbage");
  expect_clean({"verify", "--data", file}, 1);
  expect_clean({"verify", "--data", file, "--json", "-"}, 1);
}

TEST_F(Names, InErrorsOfModelsNeverReachTheTerminalRaw) {
  for (const std::string& name : kHostile) {
    OnnxModel model;
    model.input("x");
    model.node("Nonsense" + name, {"x"}, name, name);
    model.output(name);
    write(path("unknown.onnx"), model.bytes());
    expect_clean({"compile", "unknown.onnx", "-o", "o.tmb"}, 1);
    OnnxModel missing;
    missing.node("Relu", {name}, "y" + name, name);
    missing.output("y" + name);
    write(path("missing.onnx"), missing.bytes());
    expect_clean({"compile", "missing.onnx", "-o", "o.tmb"}, 1);
    OnnxModel cycle;
    cycle.node("Relu", {name}, name, name);
    cycle.output(name);
    write(path("cycle.onnx"), cycle.bytes());
    expect_clean({"compile", "cycle.onnx", "-o", "o.tmb"}, 1);
    OnnxModel external;
    external.external("w", name);
    external.node("Relu", {"w"}, "y");
    external.output("y");
    write(path("external.onnx"), external.bytes());
    expect_clean({"compile", "external.onnx", "-o", "o.tmb"}, 1);
  }
}

TEST_F(Names, AreValidJsonWhateverTheirBytes) {
  save("a.onnx", "x\xff", {"y\xc3", "\x80\x1b"});
  EXPECT_EQ(tool({"compile", "a.onnx", "-o", "a.tmb"}).code, 0);
  for (const auto& line : std::vector<std::vector<std::string>>{{"inspect", "a.tmb", "--json"},
                                                                {"run", "a.tmb", "--json"},
                                                                {"plan", "a.tmb", "--json"}}) {
    const ToolResult result = tool(line);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_TRUE(nlohmann::json::accept(result.out)) << result.out;
  }
}

TEST_F(Names, DontLeaveTheOutputFolderAndDontMeet) {
  save("a.onnx", "x",
       {"../../evil", "/etc/evil", "a/b", "a_b", "a\\b", "..", ".", "-rf", "Y", "y", "x__2", "x_",
        "x/", std::string(300, 'L') + "1", std::string(300, 'L') + "2", std::string(5000, 'M')});
  const ToolResult result = tool({"run", "a.onnx", "--output-dir", "in/out", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  std::vector<std::string> said;
  const auto json = nlohmann::json::parse(result.out);
  for (const auto& output : json["outputs"]) {
    said.push_back(output["file"]);
  }
  EXPECT_EQ(said.size(), 16U);
  EXPECT_THAT(files_in("in"), ::testing::SizeIs(17));  // with the folder
  EXPECT_THAT(files_in("in/out"), ::testing::UnorderedElementsAreArray(said));
  std::set<std::string> folded;
  for (std::string name : said) {
    std::transform(name.begin(), name.end(), name.begin(), [](char c) {
      return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    });
    folded.insert(name);
    EXPECT_EQ(name.find_first_of("/\\"), std::string::npos);
    EXPECT_NE(name[0], '.');
    EXPECT_NE(name[0], '-');
  }
  EXPECT_EQ(folded.size(), said.size());
}

}  // namespace
}  // namespace tilemesh::cli
