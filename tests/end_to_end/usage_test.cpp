// What docs promise that a user writes, as a user writes it.

#include <chrono>
#include <filesystem>
#include <span>

#include <gtest/gtest.h>

#include "programs.hpp"

namespace user {
namespace {

namespace tm = tilemesh;
using namespace std::chrono_literals;

std::filesystem::path temporary(const std::string& name) {
  return std::filesystem::path(testing::TempDir()) / name;
}

TEST(Usage, WeightsStayInputsComeAndGo) {
  const auto path = temporary("mlp.tmb");
  {
    tm::ProgramBuilder b("mlp");
    auto x = b.input("x", {.shape = {4, 6}});
    auto w = b.input("w", {.shape = {6, 3}}, tm::InputKind::parameter);
    b.output("y", b.matmul(x, w));
    tm::compile({b.build()}, {.mesh = {1, 2}}).save(path);
  }
  tm::Mesh mesh = tm::Mesh::open({.shape = {1, 2}});
  tm::Binary binary = tm::Binary::load(path);
  tm::Executable mlp = tm::prepare(mesh, binary.program("mlp"));

  auto owner = std::make_shared<std::vector<float>>(18, 0.5F);
  tm::Tensor w = tm::to_layout(
      tm::Tensor::borrow(std::span<const float>(*owner), {.shape = {6, 3}}, owner), mlp.input("w"));
  const std::vector<float> data(24, 2.0F);
  for (int batch = 0; batch < 3; ++batch) {
    std::vector<tm::Tensor> y = tm::submit(mlp, {tm::Tensor::copy(data, {.shape = {4, 6}}), w});
    EXPECT_EQ(y[0].values<float>(), std::vector<float>(12, 6.0F));
  }
  EXPECT_EQ(tm::plan(w.spec(), mlp.input("w")).to_string(), "nothing to do");
}

TEST(Usage, StateInPlace) {
  tm::Mesh mesh = tm::Mesh::open();
  tm::Executable step = tm::programs::prepared(mesh, tm::programs::accumulate({8}));
  tm::Tensor state = tm::zeros(step.input("state"));
  for (int i = 1; i <= 3; ++i) {
    std::vector<tm::Tensor> out =
        tm::run(step, {tm::programs::host({8}), tm::donate(std::move(state))});
    EXPECT_EQ(out[0].to_host().values<float>()[7], 7.0F * static_cast<float>(i) + 1);
    state = std::move(out[1]);
  }
  EXPECT_EQ(state.values<float>()[7], 21.0F);
}

TEST(Usage, IndependentProgramsStitched) {
  tm::Mesh mesh = tm::Mesh::open({.shape = {1, 2}});
  tm::Executable first = tm::programs::prepared(mesh, tm::programs::twice_relu({5, 7}, "first"));
  tm::Executable second = tm::programs::prepared(mesh, tm::programs::twice_relu({5, 7}, "second"));
  tm::Tensor x = tm::to_layout(tm::programs::host({5, 7}), first.input("x"));
  x.wait();
  const tm::Counters before = mesh.counters();
  tm::Tensor middle = tm::submit(first, {x})[0];
  tm::Tensor y = tm::submit(second, {middle}, {.conversion = tm::Conversion::forbid})[0];
  y.wait();
  const tm::Counters moved = mesh.counters() - before;
  EXPECT_EQ(moved.host_to_device_bytes, 0);
  EXPECT_EQ(moved.device_to_host_bytes, 0);
  EXPECT_EQ(moved.conversions, 0);
  EXPECT_EQ(y.values<float>()[34], 136.0F);
}

TEST(Usage, WaitingAndWhereThingsAre) {
  tm::Mesh mesh = tm::Mesh::open({.shape = {1, 2}});
  tm::Executable add = tm::programs::prepared(mesh, tm::programs::add({3, 4}));
  tm::Tensor y = tm::submit(add, {tm::programs::host({3, 4}), tm::programs::host({3, 4})})[0];
  EXPECT_TRUE(y.wait_for(60s));
  EXPECT_TRUE(y.ready());
  EXPECT_EQ(y.spec().to_string(), "f32[3,4] on mesh 1x2 (replicate, replicate), rows, dram");
  EXPECT_TRUE(y.is_allocated());
  const tm::MemoryReport before = tm::memory_report(mesh);
  y.deallocate();
  EXPECT_FALSE(y.is_allocated());
  EXPECT_NE((tm::memory_report(mesh) - before).to_string().find("add.y"), std::string::npos);
}

TEST(Usage, ProgramsWithoutOnnx) {
  tm::ProgramBuilder b("axpy");
  auto x = b.input("x", {.shape = {128}, .dtype = tm::DType::f32});
  auto y = b.input("y", {.shape = {128}, .dtype = tm::DType::f32}, tm::InputKind::state);
  b.output("y", b.add(b.mul(b.constant(2.0F), x), y), {.alias = y});
  tm::Binary binary = tm::compile({b.build()}, {.mesh = {1, 2}});
  tm::Mesh mesh = tm::Mesh::open({.shape = {1, 2}});
  tm::Executable axpy = tm::prepare(mesh, binary.program());
  tm::Tensor out =
      tm::run(axpy, {tm::programs::host({128}),
                     tm::donate(tm::to_layout(tm::programs::host({128}, 5), axpy.input("y")))})[0];
  EXPECT_EQ(out.values<float>()[127], 2.0F * 127 + 132);
}

TEST(Usage, AModelKeepsParametersAndState) {
  tm::Mesh mesh = tm::Mesh::open();
  tm::Model model(tm::programs::prepared(mesh, tm::programs::accumulate({2})));
  EXPECT_EQ(model.run({{"x", tm::programs::host({2}, 3)}}).at("y").values<float>()[0], 4.0F);
  EXPECT_EQ(model.run({{"x", tm::programs::host({2}, 3)}}).at("y").values<float>()[0], 7.0F);
  model.reset();
  EXPECT_EQ(model.run({{"x", tm::programs::host({2}, 3)}}).at("y").values<float>()[0], 4.0F);
}

TEST(Usage, AnExistingTensorIsFilledAgain) {
  tm::Mesh mesh = tm::Mesh::open();
  tm::Executable add = tm::programs::prepared(mesh, tm::programs::add({4}));
  tm::Tensor slot = tm::empty(add.input("a"));
  tm::Tensor one = tm::to_layout(tm::programs::host({4}, 1), add.input("b"));
  const auto before = tm::memory_report(mesh).spaces;
  for (int i = 0; i < 4; ++i) {
    tm::copy(tm::programs::host({4}, static_cast<float>(i)), slot);
    EXPECT_EQ(tm::run(add, {slot, one})[0].values<float>()[3], static_cast<float>(i) + 7);
  }
  EXPECT_EQ(tm::memory_report(mesh).spaces[0].used_bytes, before[0].used_bytes);
}

}  // namespace
}  // namespace user
