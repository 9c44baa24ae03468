#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include "compiler/onnx/testing.hpp"

/// What a user hears about models that can't be imported.
namespace tilemesh::onnx_importer::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(OnnxProblems, AllUnknownOpsAreListedAtOnce) {
  Model model;
  model.input("x", {std::int64_t{2}});
  model.node("Foo", {"x"}, {"a"}).set_name("first");
  model.node("Relu", {"a"}, {"b"});
  model.node("Foo", {"b"}, {"c"}).set_name("second");
  model.node("Mine", {"c"}, {"d"}).set_domain("com.example");
  model.node("StringSplit", {"d"}, {"y"});
  model.output("y");
  EXPECT_EQ(error_of([&] { model.import(); }),
            "unsupported: unsupported: ops Foo (2 times, first node \"first\"), com.example.Mine "
            "(node \"d\"), StringSplit (node \"y\": programs have no strings: cut the "
            "model behind it, and give what it makes as an input)");
}

TEST(OnnxProblems, FormsThatAreNotSupportedAreListedToo) {
  Model model;
  model.input("x", {std::int64_t{1}, std::int64_t{2}});
  model.initializer("t", filled(DType::boolean, {}, 1));
  model.node("Dropout", {"x", "", "t"}, {"a"});
  model.node("Foo", {"a"}, {"y"});
  model.output("y");
  EXPECT_THAT(error_of([&] { model.import(); }),
              AllOf(HasSubstr("ops Foo"), HasSubstr("; Dropout \"a\": it drops")));
}

// y = reshape(x, 2 * shape)
Model needy_model() {
  Model model(13);
  model.input("x", {std::int64_t{6}});
  model.input("shape", {std::int64_t{2}}, 7);
  model.input("free", {std::int64_t{1}}, 7);
  model.initializer("two", integers({2}));
  model.node("Mul", {"shape", "two"}, {"wanted"});
  model.node("Reshape", {"x", "wanted"}, {"y"});
  model.node("Shape", {"free"}, {"size"});
  model.node("Reshape", {"x", "size"}, {"z"});
  model.output("y");
  return model;
}

TEST(OnnxProblems, NeededValuesNameTheInputsToGive) {
  EXPECT_EQ(error_of([] { needy_model().import(); }),
            "invalid_argument: shapes depend on the values of inputs, which must be known when the "
            "model is compiled: \"shape\" (Reshape \"y\" for its shape): fix them with --value "
            "shape=FILE.npy");
}

/// A file that goes when the test ends.
class File {
 public:
  explicit File(const std::string& content)
      : path_(std::filesystem::temp_directory_path() /
              ("tilemesh_problems_" + std::to_string(::getpid()) + ".onnx")) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~File() { std::filesystem::remove(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(OnnxProblems, InputsTellWhetherTheirValueIsNeeded) {
  const File file(needy_model().bytes());
  const std::vector<OnnxInputInfo> inputs = onnx_inputs(file.path());
  ASSERT_EQ(inputs.size(), 3U);
  EXPECT_FALSE(inputs[0].value_needed);
  EXPECT_TRUE(inputs[1].value_needed);
  EXPECT_FALSE(inputs[2].value_needed) << "its shape is needed, its value isn't";
  EXPECT_EQ(inputs[1].dtype, DType::i64);
  EXPECT_EQ(inputs[0].dims, std::vector<std::string>{"6"});
}

TEST(OnnxProblems, FilesAreNamed) {
  EXPECT_THAT(error_of([] { import_onnx("no/such/model.onnx"); }),
              AllOf(HasSubstr("io: "), HasSubstr("no/such/model.onnx")));
  EXPECT_THAT(error_of([] { import_onnx(std::filesystem::temp_directory_path()); }),
              HasSubstr("io: "));
  const File empty("");
  EXPECT_THAT(error_of([&] { import_onnx(empty.path()); }), HasSubstr("the file is empty"));
  const File garbage("this is no model");
  EXPECT_THAT(error_of([&] { import_onnx(garbage.path()); }),
              AllOf(HasSubstr("invalid_file: "), HasSubstr("not an ONNX model")));
  EXPECT_THAT(error_of([&] { onnx_inputs(garbage.path()); }), HasSubstr("not an ONNX model"));
}

TEST(OnnxProblems, FilesNameTheProgram) {
  Model model;
  model.input("x", {std::int64_t{2}});
  model.node("Relu", {"x"}, {"y"});
  model.output("y");
  const File file(model.bytes());
  EXPECT_EQ(import_onnx(file.path()).name, file.path().stem().string());
}

TEST(OnnxProblems, VersionsOutsideAreNamed) {
  Model model;
  model.input("x", {std::int64_t{2}});
  model.node("Relu", {"x"}, {"y"});
  model.output("y");
  model.proto.set_ir_version(99);
  EXPECT_THAT(error_of([&] { model.import(); }), HasSubstr("unsupported: IR version 99"));
  model.proto.set_ir_version(8);
  model.proto.clear_opset_import();
  EXPECT_THAT(error_of([&] { model.import(); }),
              AllOf(HasSubstr("invalid_file"), HasSubstr("doesn't say which opset")));
  model.proto.add_opset_import()->set_domain("ai.onnx");
  model.proto.mutable_opset_import(0)->set_version(13);
  EXPECT_THAT(error_of([&] { model.import(); }), Not(HasSubstr("opset")));
}

}  // namespace
}  // namespace tilemesh::onnx_importer::testing
