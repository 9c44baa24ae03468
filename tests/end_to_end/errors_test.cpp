#include <gtest/gtest.h>

#include "programs.hpp"

namespace tilemesh {
namespace {

using programs::refused;

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

class Errors : public testing::Test {
 protected:
  Mesh mesh = Mesh::open();
  Executable linear = programs::prepared(mesh, programs::linear(4, 8, 3));
  Tensor x = programs::host({4, 8});
  Tensor w = programs::host({8, 3});
};

TEST_F(Errors, AWrongNumberOfInputs) {
  const std::string text = refused(ErrorCode::invalid_argument, [&] { submit(linear, {x}); });
  EXPECT_HAS(text, "wants 2 inputs (\"x\", \"w\"), got 1");
}

TEST_F(Errors, AWrongNameListsTheRightOnes) {
  const std::string text = refused(ErrorCode::not_found, [&] { linear.input("weights"); });
  EXPECT_HAS(text, "\"weights\"");
  EXPECT_HAS(text, "\"x\", \"w\"");
  refused(ErrorCode::not_found, [&] { linear.input(2); });
  refused(ErrorCode::not_found, [&] { linear.output("z"); });
}

TEST_F(Errors, AWrongRankShapeOrDtypeNamesBoth) {
  std::string text = refused(ErrorCode::invalid_argument, [&] {
    submit(linear, {programs::host({32}), w});
  });
  EXPECT_HAS(text, "input \"x\" of program \"linear\" wants f32[4,8], got f32[32]");
  text = refused(ErrorCode::invalid_argument, [&] { submit(linear, {x, programs::host({8, 4})}); });
  EXPECT_HAS(text, "wants f32[8,3], got f32[8,4]");
  const Tensor integers = Tensor::copy(std::vector<std::int64_t>(32), {.shape = {4, 8}});
  text = refused(ErrorCode::invalid_argument, [&] { submit(linear, {integers, w}); });
  EXPECT_HAS(text, "wants f32[4,8], got i64[4,8]");
}

TEST_F(Errors, AMeshOfAnotherShape) {
  const Mesh other = Mesh::open({.shape = {1, 2}});
  const Binary binary = compile({programs::linear(4, 8, 3)}, {});
  const std::string text = refused(ErrorCode::mismatch, [&] { prepare(other, binary.program()); });
  EXPECT_HAS(text, "1x1");
  EXPECT_HAS(text, "1x2");
}

TEST_F(Errors, TooLittleMemorySaysWhatIsThere) {
  const Mesh small = Mesh::open({.dram_bytes = 1 << 20});
  const Tensor holder = zeros(small, {.shape = {100, 1000}}, "the holder");
  const std::string text = refused(ErrorCode::out_of_memory, [&] {
    zeros(small, {.shape = {1000, 1000}}, "the asker");
  });
  EXPECT_HAS(text, "the asker");
  EXPECT_HAS(text, "the holder");
  EXPECT_NO_THROW(zeros(small, {.shape = {10, 1000}}, "a small one").wait());
}

TEST_F(Errors, AUseAfterDeallocateNamesTheTensorAndThePlace) {
  Tensor resident = to_layout(w, linear.input("w"));
  const Tensor copy = resident;
  resident.deallocate();
  resident.deallocate();  // a second call does nothing
  EXPECT_FALSE(copy.is_allocated());
  const std::string text = refused(ErrorCode::deallocated, [&] { submit(linear, {x, copy}); });
  EXPECT_HAS(text, "linear.w");
  EXPECT_HAS(text, "errors_test.cpp");
  refused(ErrorCode::deallocated, [&] { copy.to_host(); });
}

TEST_F(Errors, AHostTensorFollowsTheSameRules) {
  Tensor host = programs::host({8, 3});
  host.deallocate();
  EXPECT_FALSE(host.is_allocated());
  refused(ErrorCode::deallocated, [&] { submit(linear, {x, host}); });
  refused(ErrorCode::deallocated, [&] { host.values<float>(); });
}

TEST_F(Errors, AnEmptyHandle) {
  const Tensor nothing;
  EXPECT_FALSE(nothing.is_allocated());
  refused(ErrorCode::invalid_argument, [&] { submit(linear, {x, nothing}); });
  refused(ErrorCode::invalid_argument, [&] { nothing.spec(); });
}

TEST_F(Errors, OneTensorTwiceIsFine) {
  const Executable add = programs::prepared(mesh, programs::add({4}));
  const Tensor a = to_layout(programs::host({4}), add.input("a"));
  EXPECT_EQ(run(add, {a, a})[0].values<float>(), (std::vector<float>{0, 2, 4, 6}));
}

TEST_F(Errors, MissingFilesAndPrograms) {
  refused(ErrorCode::io, [] { Binary::load("there-is-no-such-file.tmb"); });
  refused(ErrorCode::io, [] { import_onnx("there-is-no-such-file.onnx"); });
  const Binary binary = compile({programs::linear(4, 8, 3)}, {});
  EXPECT_HAS(refused(ErrorCode::not_found, [&] { binary.program("other"); }), "linear");
}

TEST_F(Errors, AFilledOutputMustFit) {
  const Executable add = programs::prepared(mesh, programs::add({4}));
  const Tensor a = to_layout(programs::host({4}), add.input("a"));
  std::vector<Tensor> outputs{a};
  refused(ErrorCode::invalid_argument, [&] {
    run_into(add, std::vector<Argument>{a, a}, outputs);
  });
  outputs = {empty(mesh, {.shape = {5}})};
  refused(ErrorCode::invalid_argument, [&] {
    run_into(add, std::vector<Argument>{a, a}, outputs);
  });
}

}  // namespace
}  // namespace tilemesh
