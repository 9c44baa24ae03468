#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "programs.hpp"

namespace tilemesh {
namespace {

Executable doubled(const Mesh& mesh, const Shape& shape) {
  ProgramBuilder builder("doubled");
  const auto x = builder.input("x", {.shape = shape});
  builder.output("y", builder.add(x, x));
  return programs::prepared(mesh, builder.build());
}

TEST(HostArrays, StridesOfEverySignGiveTheRightValues) {
  const Mesh mesh = Mesh::open();
  const Executable program = doubled(mesh, {3, 4});
  const std::vector<float> data = programs::iota(24);
  const auto run_on = [&](const HostSpec& spec) {
    return run(program, {Tensor::copy(data, spec)})[0].values<float>();
  };
  const auto borrowed = [&](const HostSpec& spec) {
    return run(program, {Tensor::borrow(std::span(data), spec, nullptr)})[0].values<float>();
  };
  const std::vector<HostSpec> specs = {
      {.shape = {3, 4}},
      {.shape = {3, 4}, .strides = {8, 2}},
      {.shape = {3, 4}, .strides = {1, 3}},
      {.shape = {3, 4}, .strides = {-4, -1}, .offset = 11},
      {.shape = {3, 4}, .strides = {-8, 1}, .offset = 16},
      {.shape = {3, 4}, .strides = {0, 1}, .offset = 5},
      {.shape = {3, 4}, .strides = {0, 0}},
  };
  for (const HostSpec& spec : specs) {
    std::vector<float> wanted;
    const Dims strides = spec.strides.empty() ? Dims{4, 1} : spec.strides;
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t k = 0; k < 4; ++k) {
        wanted.push_back(
            2.0F * data[static_cast<std::size_t>(spec.offset + i * strides[0] + k * strides[1])]);
      }
    }
    EXPECT_EQ(run_on(spec), wanted);
    EXPECT_EQ(borrowed(spec), wanted);
  }
}

TEST(HostArrays, ASpanThatIsTooSmallIsRefused) {
  const std::vector<float> data(11);
  EXPECT_THROW(Tensor::copy(data, {.shape = {3, 4}}), Error);
  EXPECT_THROW(Tensor::copy(data, {.shape = {3}, .strides = {-1}}), Error);
  EXPECT_THROW(Tensor::copy(data, {.shape = {3}, .strides = {5}, .offset = 1}), Error);
  EXPECT_THROW(Tensor::copy(data, {.shape = {3}, .strides = {1, 1}}), Error);
  EXPECT_NO_THROW(Tensor::copy(data, {.shape = {0, 100}}));
}

TEST(HostArrays, ZeroSizesAndRankZero) {
  for (const auto& mesh_shape : {MeshShape{1, 1}, MeshShape{1, 3}}) {
    const Mesh mesh = Mesh::open({.shape = mesh_shape});
    EXPECT_EQ(run(doubled(mesh, {0, 4}), {programs::host({0, 4})})[0].values<float>(),
              std::vector<float>{});
    EXPECT_EQ(run(doubled(mesh, {}), {programs::host({}, 21)})[0].item<float>(), 42.0F);
    EXPECT_EQ(run(doubled(mesh, {1}), {programs::host({1}, 3)})[0].item<float>(), 6.0F);
  }
}

TEST(HostArrays, SpecialValuesSurvive) {
  const Mesh mesh = Mesh::open();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> data = {infinity, -infinity, std::nanf(""), -0.0F, 1e-40F};
  const auto y = run(doubled(mesh, {5}), {Tensor::copy(data, {.shape = {5}})})[0].values<float>();
  EXPECT_EQ(y[0], infinity);
  EXPECT_EQ(y[1], -infinity);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_TRUE(std::signbit(y[3]));
}

TEST(HostArrays, IntegersNearTwoToThe53Survive) {
  const Mesh mesh = Mesh::open();
  ProgramBuilder builder("integers");
  const auto x = builder.input("x", {.shape = {3}, .dtype = DType::i64});
  builder.output("y", builder.add(x, builder.constant(std::int64_t{1})));
  const Executable program = programs::prepared(mesh, builder.build());
  const std::int64_t big = (std::int64_t{1} << 53) + 1;
  const auto y =
      run(program, {Tensor::copy(std::vector<std::int64_t>{big, -big, 0}, {.shape = {3}})})[0]
          .values<std::int64_t>();
  EXPECT_EQ(y, (std::vector<std::int64_t>{big + 1, -big + 1, 1}));
}

TEST(HostArrays, ABorrowedOwnerIsHeldUntilTheCopyIsDone) {
  const Mesh mesh = Mesh::open();
  const Executable program = doubled(mesh, {1 << 20});
  auto owner = std::make_shared<std::vector<float>>(1 << 20, 1.5F);
  const std::weak_ptr<std::vector<float>> watch = owner;
  Tensor x = Tensor::borrow(std::span<const float>(*owner), {.shape = {1 << 20}}, owner);
  Tensor y = submit(program, {x})[0];
  x = Tensor();
  owner.reset();
  EXPECT_EQ(y.values<float>()[(1 << 20) - 1], 3.0F);
  mesh.queue(0).finish();
  EXPECT_TRUE(watch.expired());
}

TEST(HostArrays, ItemAndValuesCheckTypeAndCount) {
  EXPECT_THROW(programs::host({2}).item<float>(), Error);
  EXPECT_THROW(programs::host({1}).item<double>(), Error);
  EXPECT_THROW(programs::host({1}).values<std::int32_t>(), Error);
}

}  // namespace
}  // namespace tilemesh
