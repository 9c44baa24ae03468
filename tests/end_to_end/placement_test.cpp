// Programs whose values are cut over the mesh: constants that lie as shards, and reshards.

#include <cstring>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tilemesh/tilemesh.hpp"

namespace tilemesh {
namespace {

using Kind = Storage::Kind;

std::vector<float> counting(std::int64_t count, int modulus) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    values[static_cast<std::size_t>(i)] = static_cast<float>(i * 7 % modulus - modulus / 2);
  }
  return values;
}

ProgramOp call(const std::string& op, std::vector<std::uint32_t> inputs, std::uint32_t output) {
  ProgramOp result;
  result.op = op;
  result.inputs = std::move(inputs);
  result.outputs = {output};
  return result;
}

/// relu(x[m,k] @ w[k,n]) with the inner dim cut over all axes of a mesh: a constant in shards, a
/// product in parts that is reduced as `whole` says.
class Product {
 public:
  Product(const MeshShape& mesh, std::int64_t m, std::int64_t k, std::int64_t n)
      : mesh_(mesh), m_(m), k_(k), n_(n), x_(counting(m * k, 11)), w_(counting(k * n, 13)) {}

  Tensor x() const { return Tensor::copy(x_, {.shape = Shape{m_, k_}}); }

  Binary binary(const Placements& whole) const {
    Program program;
    program.name = "product";
    program.mesh = mesh_;
    const TensorSpec w = spec({k_, n_}, all(shard(0)));
    program.values = {
        {"x", spec({m_, k_}, all(shard(1))), {Kind::input, 0, 0}},
        {"w", w, {Kind::constant, 0, 0}},
        {"parts", spec({m_, n_}, all(partial(ReduceOp::sum))), {Kind::workspace, 0, 0}},
        {"whole", spec({m_, n_}, whole), {Kind::workspace, 0, m_ * n_ * 4}},
        {"y", spec({m_, n_}, whole), {Kind::output, 0, 0}}};
    program.dram_workspace_bytes = m_ * n_ * 8;
    program.inputs = {{"x", 0}};
    program.outputs = {{"y", 4, -1}};
    program.ops = {call("matmul", {0, 1}, 2), call("reshard", {2}, 3), call("relu", {3}, 4)};
    BinaryContents contents;
    contents.constants = shards_of(w);
    program.constants = {{1, 0, contents.constants.size(), 99}};
    contents.programs = {program};
    return Binary::from_contents(std::move(contents));
  }

  std::vector<float> expected() const {
    std::vector<float> y(static_cast<std::size_t>(m_ * n_), 0.0F);
    for (std::int64_t i = 0; i < m_ * n_; ++i) {
      float sum = 0;
      for (std::int64_t k = 0; k < k_; ++k) {
        sum += x_[static_cast<std::size_t>(i / n_ * k_ + k)] *
               w_[static_cast<std::size_t>(k * n_ + i % n_)];
      }
      y[static_cast<std::size_t>(i)] = std::max(sum, 0.0F);
    }
    return y;
  }

 private:
  Placements all(const Placement& placement) const {
    Placements placements;
    placements.resize(static_cast<std::size_t>(mesh_.axes()), placement);
    return placements;
  }
  TensorSpec spec(const Shape& shape, const Placements& placements) const {
    return {.shape = shape, .placements = placements, .mesh = mesh_};
  }
  /// Rows cut: shards follow each other, the last filled up with zeros.
  std::vector<std::byte> shards_of(const TensorSpec& w) const {
    std::vector<std::byte> bytes(static_cast<std::size_t>(shard_count(w) * w.bytes_per_device()));
    std::memcpy(bytes.data(), w_.data(), w_.size() * sizeof(float));
    return bytes;
  }

  MeshShape mesh_;
  std::int64_t m_, k_, n_;
  std::vector<float> x_, w_;
};

class Placed : public testing::TestWithParam<std::string> {
 protected:
  MeshShape shape_ = MeshShape::parse(GetParam());
};

TEST_P(Placed, PartsAreReducedToAnyPlacement) {
  for (const char* backend : {"cpu", "null"}) {
    const Mesh mesh = Mesh::open({.shape = shape_, .backend = backend});
    const Product product(shape_, 5, 13, 6);
    for (const Placement& whole : {replicate(), shard(0), shard(1)}) {
      Placements placements;
      placements.resize(static_cast<std::size_t>(shape_.axes()), whole);
      const Executable executable = prepare(mesh, product.binary(placements).program());
      for (int run_index = 0; run_index < 3; ++run_index) {
        const Tensor y = run(executable, {product.x()})[0];
        EXPECT_EQ(y.values<float>(), product.expected()) << backend << " " << whole.to_string();
      }
      EXPECT_EQ(submit(executable, {product.x()})[0].values<float>(), product.expected());
    }
  }
}

TEST_P(Placed, EveryDeviceHoldsItsShardOfAConstantAlone) {
  const Mesh mesh = Mesh::open({.shape = shape_});
  const Product product(shape_, 5, 64, 32);
  const Counters before = mesh.counters();
  const Executable executable = prepare(mesh, product.binary({}).program());
  const std::int64_t uploaded = (mesh.counters() - before).host_to_device_bytes;
  const std::int64_t devices = mesh.device_count();
  // A multiple of what the allocator takes.
  const std::int64_t padded = (64 + devices - 1) / devices * devices * 32 * 4;
  EXPECT_EQ(uploaded, padded);
  EXPECT_EQ(plan_memory(executable.program(), {}).spaces[0].constants_bytes, padded / devices);

  // The same content in the same placement once more costs nothing.
  const Executable again = prepare(mesh, product.binary({}).program());
  EXPECT_EQ((mesh.counters() - before).host_to_device_bytes, uploaded);
  EXPECT_EQ(run(again, {product.x()})[0].values<float>(), product.expected());
}

INSTANTIATE_TEST_SUITE_P(Meshes, Placed, testing::Values("1x2", "3", "2x2", "1x5", "7x1", "2x2x2"),
                         [](const auto& test) { return "mesh_" + test.param; });

/// y = relu(x) * 2 on rows or columns.
Executable cut_relu(const Mesh& mesh, const Placements& placements) {
  ProgramBuilder builder("relu");
  const auto x = builder.input("x", {.shape = {7, 5}, .placements = placements});
  builder.output("y", builder.mul(builder.relu(x), builder.constant(2.0F)));
  std::vector<Graph> graphs;
  graphs.push_back(builder.build());
  return prepare(mesh, compile(std::move(graphs), {.mesh = mesh.shape()}).program());
}

TEST(Stitching, OtherPlacementsAndViewsAreConvertedCountedAndForbidden) {
  const Mesh mesh = Mesh::open({.shape = {2, 2}});
  const Mesh line = mesh.reshape({4});
  const Mesh corner = mesh.submesh({{1, 0}, {1, 1}});
  const Executable rows = cut_relu(mesh, {shard(0), shard(0)});
  const Executable columns = cut_relu(mesh, {replicate(), shard(1)});
  const Executable on_line = cut_relu(line, {shard(0)});
  const Executable on_corner = cut_relu(corner, {replicate(), shard(1)});
  const Tensor x = distribute(Tensor::copy(counting(35, 9), {.shape = {7, 5}}), mesh, {});
  std::vector<float> expected = counting(35, 9);
  for (float& value : expected) {
    value = std::max(value, 0.0F) * 4;
  }
  const Tensor between = run(rows, {x})[0];
  for (const Executable* next : {&columns, &on_corner}) {
    const Counters before = mesh.counters();
    const Tensor y = submit(*next, {between})[0];
    y.wait();
    const Counters spent = mesh.counters() - before;
    EXPECT_EQ(y.values<float>(), expected);
    EXPECT_EQ(spent.conversions, 1);
    EXPECT_GT(spent.device_to_device_bytes, 0);
    EXPECT_EQ(spent.host_to_device_bytes + spent.device_to_host_bytes, 0);
    EXPECT_THROW(submit(*next, {between}, {.conversion = Conversion::forbid}), Error);
  }
  // The same parts on the same devices, which another view names otherwise.
  EXPECT_EQ(submit(on_line, {between}, {.conversion = Conversion::forbid})[0].values<float>(),
            expected);
}

TEST(PlacedConstants, OfEqualBytesButAnotherPlacementAreApart) {
  const Mesh mesh = Mesh::open({.shape = {2}});
  const auto program = [](const Placements& placements, const Shape& shape) {
    const TensorSpec spec{.shape = shape, .placements = placements, .mesh = MeshShape{2}};
    Program result;
    result.name = "constant";
    result.mesh = MeshShape{2};
    result.values = {{"c", spec, {Kind::constant, 0, 0}}, {"y", spec, {Kind::output, 0, 0}}};
    result.outputs = {{"y", 1, -1}};
    result.ops = {call("relu", {0}, 1)};
    BinaryContents contents;
    const std::vector<float> values = {1, 2, 3, 4};
    const auto bytes = std::as_bytes(std::span(values));
    contents.constants.assign(bytes.begin(), bytes.end());
    result.constants = {{0, 0, 16, 7}};
    contents.programs = {result};
    return Binary::from_contents(std::move(contents));
  };
  const Executable cut = prepare(mesh, program({shard(0)}, {4}).program());
  const Executable whole = prepare(mesh, program({}, {4}).program());
  const Executable columns = prepare(mesh, program({shard(1)}, {2, 2}).program());
  EXPECT_EQ(run(cut, {})[0].values<float>(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(run(whole, {})[0].values<float>(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(run(columns, {})[0].values<float>(), (std::vector<float>{1, 3, 2, 4}));
}

}  // namespace
}  // namespace tilemesh
