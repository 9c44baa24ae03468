#include <cmath>

#include <gtest/gtest.h>

#include "random_program.hpp"

namespace tilemesh::testing {
namespace {

constexpr int kGroups = 100;
constexpr std::uint32_t kPerGroup = 20;

struct Meshes {
  Mesh one = Mesh::open({.dram_bytes = 64 << 20});
  Mesh many;
  Mesh few_workers;
};

Meshes& meshes_of(std::size_t number) {
  static const std::vector<MeshShape> kShapes{{1, 2}, {2, 2}, {1, 3}, {2, 4}};
  static std::vector<Meshes> all = [] {
    std::vector<Meshes> made;
    for (const MeshShape& shape : kShapes) {
      made.push_back(
          {.many = Mesh::open({.shape = shape, .dram_bytes = 64 << 20}),
           .few_workers = Mesh::open({.shape = shape, .workers = 1, .dram_bytes = 64 << 20})});
    }
    return made;
  }();
  return all[number % all.size()];
}

std::vector<Tensor> run_on(const Mesh& mesh, const RandomProgram& program,
                           const std::vector<ShardRule>& rules) {
  const Binary binary = compile({program.graph}, {.mesh = mesh.shape(), .shards = rules});
  const Executable executable = prepare(mesh, binary.program());
  std::vector<Argument> arguments;
  for (std::size_t i = 0; i < executable.input_count(); ++i) {
    arguments.emplace_back(program.inputs.at(executable.input(static_cast<int>(i)).name));
  }
  std::vector<Tensor> outputs;
  for (const Tensor& output : run(executable, arguments))
    outputs.push_back(output.to_host());
  return outputs;
}

std::vector<std::byte> bytes_of(const Tensor& tensor) {
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(tensor.shape().element_count() * size_of(tensor.dtype())));
  tensor.read(bytes);
  return bytes;
}

/// Within rounding: sums over parts are sums in another order.
void expect_close(const Tensor& got, const Tensor& wanted) {
  ASSERT_EQ(got.shape(), wanted.shape());
  ASSERT_EQ(got.dtype(), wanted.dtype());
  if (got.dtype() != DType::f32) {
    EXPECT_EQ(bytes_of(got), bytes_of(wanted));
    return;
  }
  const auto a = got.values<float>();
  const auto b = wanted.values<float>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    if (!same) {
      ASSERT_NEAR(a[i], b[i], 5e-4F * std::max(1.0F, std::abs(b[i]))) << "element " << i;
    }
  }
}

class RandomMesh : public ::testing::TestWithParam<int> {};

TEST_P(RandomMesh, GivesWhatOneDeviceGives) {
  for (std::uint32_t i = 0; i < kPerGroup && !HasFailure(); ++i) {
    const std::uint32_t seed = static_cast<std::uint32_t>(GetParam()) * kPerGroup + i;
    Meshes& meshes = meshes_of(seed);
    const RandomProgram program =
        random_program(seed, 3 + static_cast<int>(seed % 18), meshes.many.shape());
    SCOPED_TRACE("seed " + std::to_string(seed) + " on " + meshes.many.shape().to_string() + "\n" +
                 program.text);
    const auto wanted = run_on(meshes.one, program, {});
    const auto got = run_on(meshes.many, program, program.rules);
    const auto again = run_on(meshes.few_workers, program, program.rules);
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t k = 0; k < got.size(); ++k) {
      expect_close(got[k], wanted[k]);
      EXPECT_EQ(bytes_of(got[k]), bytes_of(again[k])) << "other bits with another run and workers";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomMesh, ::testing::Range(0, kGroups));

}  // namespace
}  // namespace tilemesh::testing
