#include "tilemesh/tensor/reshard.hpp"

#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tilemesh/mesh/mesh_queue.hpp"
#include "tilemesh/tensor/transfer.hpp"

namespace tilemesh {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

const Placement kSum = partial(ReduceOp::sum);

Tensor as(const Tensor& host, DType dtype) {
  const Dims strides = row_major_strides(host.shape());
  Bytes bytes(static_cast<std::size_t>(host.shape().element_count() * size_of(dtype)));
  copy_strided(host.host_view(), {bytes.data(), dtype, host.shape(), strides});
  return Tensor::copy_bytes(bytes, dtype, {.shape = host.shape()});
}

/// Small numbers, other ones for each seed, of which a few sum up exactly in every dtype.
Tensor numbered(const Shape& shape, DType dtype, int seed = 0) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(shape.element_count()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = (static_cast<std::int64_t>(i) * 7 + seed * 3) % 5;
  }
  return as(Tensor::adopt(std::move(values), {.shape = shape}), dtype);
}

Bytes bytes_of(const Tensor& tensor) {
  Bytes bytes(static_cast<std::size_t>(tensor.shape().element_count() * size_of(tensor.dtype())));
  tensor.read(bytes);
  return bytes;
}

Shape sizes_at(const TensorSpec& spec, const MeshCoord& coord) {
  Dims sizes;
  for (const Extent& extent : spec.extents(coord)) {
    sizes.push_back(extent.size);
  }
  return Shape(sizes);
}

/// What the device at a coordinate should hold of a host tensor.
Bytes part_at(const Tensor& whole, const TensorSpec& spec, const MeshCoord& coord) {
  ConstStridedView view = whole.host_view();
  const Extents extents = spec.extents(coord);
  for (std::size_t d = 0; d < extents.size(); ++d) {
    view.data += extents[d].begin * view.strides[d] * size_of(view.dtype);
  }
  view.shape = sizes_at(spec, coord);
  Bytes bytes(static_cast<std::size_t>(view.shape.element_count() * size_of(view.dtype)));
  copy_strided(view, {bytes.data(), view.dtype, view.shape, row_major_strides(view.shape)});
  return bytes;
}

/// Every device holds its part, and zeros wherever its shard isn't full.
void expect_lies(const Tensor& tensor, const Tensor& whole) {
  const TensorSpec& spec = tensor.spec();
  for (int i = 0; i < spec.mesh.device_count(); ++i) {
    const MeshCoord coord = spec.mesh.coord_of(i);
    EXPECT_EQ(bytes_of(tensor.shard(coord)), part_at(whole, spec, coord))
        << spec.to_string() << " at " << to_string(coord);
  }
  EXPECT_EQ(bytes_of(tensor), bytes_of(whole)) << spec.to_string();
}

struct ReshardCase {
  std::string name;
  MeshOptions options;
};
void PrintTo(const ReshardCase& mesh, std::ostream* out) {
  *out << mesh.name;
}

std::vector<ReshardCase> reshard_cases() {
  std::vector<ReshardCase> cases;
  for (const char* backend : {"cpu", "null"}) {
    for (const char* shape : {"2", "1x3", "2x2", "8", "2x2x2", "7x1", "8x8"}) {
      cases.push_back({std::string(backend) + "_" + shape,
                       {.shape = MeshShape::parse(shape),
                        .backend = backend,
                        .dram_bytes = 4 << 20,
                        .l1_bytes = 256 << 10}});
    }
  }
  return cases;
}

class ReshardTest : public testing::TestWithParam<ReshardCase> {
 protected:
  Mesh mesh_ = Mesh::open(GetParam().options);

  TensorSpec spec(const Shape& shape, const Placements& placements, DType dtype = DType::f32) {
    return {.shape = shape, .dtype = dtype, .placements = placements, .mesh = mesh_.shape()};
  }
  Placements all(const Placement& placement) const {
    Placements placements;
    placements.resize(static_cast<std::size_t>(mesh_.shape().axes()), placement);
    return placements;
  }
  /// All ways to lie on the mesh; parts of a reduction only if asked for.
  std::vector<Placements> ways(int rank, bool with_parts) const {
    std::vector<Placement> each = {replicate()};
    for (int dim = 0; dim < rank; ++dim) {
      each.push_back(shard(dim));
    }
    if (with_parts) each.push_back(kSum);
    std::vector<Placements> result = {{}};
    for (int axis = 0; axis < mesh_.shape().axes(); ++axis) {
      std::vector<Placements> longer;
      for (const Placements& placements : result) {
        for (const Placement& placement : each) {
          longer.push_back(placements);
          longer.back().push_back(placement);
        }
      }
      result = std::move(longer);
    }
    return result;
  }
  /// A tensor that lies so, and what it is on the host; parts differ from device to device.
  std::pair<Tensor, Tensor> make(const TensorSpec& lies) {
    std::vector<Tensor> shards;
    std::vector<std::int64_t> sums(static_cast<std::size_t>(lies.shape.element_count()));
    std::set<int> added;
    for (int i = 0; i < lies.mesh.device_count(); ++i) {
      const MeshCoord coord = lies.mesh.coord_of(i);
      int part = 0;
      for (int axis = 0; axis < lies.mesh.axes(); ++axis) {
        if (lies.placement(axis).kind() == Placement::Kind::partial) {
          part = part * lies.mesh[axis] + coord[static_cast<std::size_t>(axis)];
        }
      }
      const Tensor whole = numbered(lies.shape, lies.dtype, part);
      if (added.insert(part).second) {
        const auto values = as(whole, DType::i64).values<std::int64_t>();
        for (std::size_t k = 0; k < sums.size(); ++k) {
          sums[k] += values[k];
        }
      }
      shards.push_back(Tensor::copy_bytes(part_at(whole, lies, coord), lies.dtype,
                                          {.shape = sizes_at(lies, coord)}));
    }
    return {from_shards(shards, mesh_, lies.placements),
            as(Tensor::adopt(std::move(sums), {.shape = lies.shape}), lies.dtype)};
  }
};
INSTANTIATE_TEST_SUITE_P(Meshes, ReshardTest, testing::ValuesIn(reshard_cases()),
                         [](const auto& test) { return test.param.name; });

TEST_P(ReshardTest, AnyPlacementToAnyOther) {
  const bool large = mesh_.device_count() > 16;
  for (const Shape& shape : {Shape{}, Shape{13}, Shape{5, 3}, Shape{0, 4}, Shape{1, 1}}) {
    const int rank = large ? std::min(shape.rank(), 1) : shape.rank();
    const bool many = mesh_.shape().axes() == 3 && rank == 2;  // then a fifth of them
    int pair = 0;
    for (const Placements& from : ways(rank, true)) {
      const auto [tensor, whole] = make(spec(shape, from));
      for (const Placements& to : ways(rank, false)) {
        if (many && ++pair % 5 != 0) continue;
        const Tensor moved = reshard(tensor, to);
        EXPECT_EQ(moved.spec().placements == to || moved.spec().is_replicated(), true);
        expect_lies(moved, whole);
      }
    }
  }
}

TEST_P(ReshardTest, OfEveryDType) {
  for (int number = 0; number < kComputedDTypeCount; ++number) {
    const auto dtype = static_cast<DType>(number);
    const Shape shape = {17, 3};
    for (const Placement& from : {replicate(), shard(0), shard(1), kSum}) {
      const auto [tensor, whole] = make(spec(shape, all(from), dtype));
      EXPECT_EQ(bytes_of(tensor), bytes_of(whole)) << to_string(dtype) << from.to_string();
      for (const Placement& to : {replicate(), shard(0), shard(1)}) {
        expect_lies(reshard(tensor, all(to)), whole);
      }
    }
  }
}

TEST_P(ReshardTest, KeepsTheLayout) {
  const Shape shape = {6, 20, 3};
  const std::vector<Layout> layouts = {Layout::blocked(1, 16), Layout::channels_last(3),
                                       Layout::tiled(3, 4, 2)};
  for (const Layout& layout : layouts) {
    for (const Placement& from : {replicate(), shard(0), shard(1), kSum}) {
      const auto [tensor, whole] = make(spec(shape, all(from)));
      TensorSpec blocked = tensor.spec();
      blocked.layout = layout;
      const Tensor converted = to_spec(tensor, mesh_, blocked);
      for (const Placement& to : {replicate(), shard(0), shard(2)}) {
        const Tensor moved = reshard(converted, all(to));
        EXPECT_EQ(moved.spec().layout, layout);
        EXPECT_EQ(bytes_of(moved), bytes_of(whole)) << moved.spec().to_string();
      }
    }
  }
}

TEST_P(ReshardTest, ChangesDTypeAndSpaceOnTheWay) {
  const auto [tensor, whole] = make(spec({9, 5}, all(kSum)));
  TensorSpec wanted = spec({9, 5}, all(shard(0)), DType::i32);
  wanted.space = Space::l1;
  const Tensor moved = to_spec(tensor, mesh_, wanted);
  EXPECT_EQ(moved.spec(), wanted);
  EXPECT_EQ(bytes_of(moved), bytes_of(as(whole, DType::i32)));
}

TEST_P(ReshardTest, ToTheSameIsTheTensorItself) {
  const auto [tensor, whole] = make(spec({9, 5}, all(shard(0))));
  const Counters before = mesh_.counters();
  const Tensor same = reshard(tensor, all(shard(0)));
  EXPECT_EQ(same.state(), tensor.state());
  EXPECT_EQ((mesh_.counters() - before).conversions, 0);
  EXPECT_EQ(plan_reshard(tensor, all(shard(0))).to_string(), "nothing to do");
}

TEST_P(ReshardTest, AReplicatedTensorIsReadOnce) {  // tt-metal#54603
  const Tensor tensor = distribute(numbered({6, 5}, DType::f32), mesh_, {});
  const Counters before = mesh_.counters();
  EXPECT_EQ(tensor.to_host().shape(), (Shape{6, 5}));
  const Counters spent = mesh_.counters() - before;
  EXPECT_EQ(spent.device_to_host_bytes, 120);
  EXPECT_EQ(spent.device_to_host_transfers, 1);
}

TEST_P(ReshardTest, WithoutTheHostAndCounted) {
  const auto [tensor, whole] = make(spec({64, 8}, all(shard(0))));
  const Counters before = mesh_.counters();
  const Tensor moved = reshard(tensor, all(replicate()));
  moved.wait();
  const Counters spent = mesh_.counters() - before;
  EXPECT_EQ(spent.host_to_device_bytes, 0);
  EXPECT_EQ(spent.device_to_host_bytes, 0);
  EXPECT_EQ(spent.conversions, 1);
  EXPECT_GE(spent.device_to_device_transfers, 1);
  std::int64_t missing = 0;  // what each device lacks
  for (int i = 0; i < mesh_.device_count(); ++i) {
    missing += (512 - sizes_at(tensor.spec(), mesh_.shape().coord_of(i)).element_count()) * 4;
  }
  EXPECT_EQ(spent.device_to_device_bytes, missing);
}

TEST_P(ReshardTest, APartialTensorIsReducedOrAnErrorByChoice) {
  const auto [tensor, whole] = make(spec({6, 5}, all(kSum)));
  EXPECT_EQ(bytes_of(tensor.to_host()), bytes_of(whole));
  try {
    tensor.to_host({.reduce_partial = false});
    FAIL() << "read a partial tensor";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("all_reduce"));
  }
}

TEST_P(ReshardTest, RefusesWhatCantBe) {
  const Tensor whole = distribute(numbered({6, 5}, DType::f32), mesh_, {});
  EXPECT_THROW(reshard(whole, all(kSum)), Error);
  EXPECT_THROW(reshard(whole, all(shard(2))), Error);
  EXPECT_THROW(reshard(whole, {replicate(), replicate(), replicate(), replicate()}), Error);
  EXPECT_THROW(reshard(numbered({6}, DType::f32), all(replicate())), Error);
  EXPECT_THROW(distribute(numbered({6}, DType::f32), mesh_, all(kSum)), Error);
}

TEST(Reshard, ToAnotherShapeOfTheSameDevicesIsAView) {  // tt-metal#26353
  const Mesh mesh = Mesh::open({.shape = {2, 2}});
  const Mesh line = mesh.reshape({4});
  const Tensor whole = numbered({9, 5}, DType::f32);
  const Tensor tensor = distribute(whole, mesh, {shard(0), shard(0)});
  const Counters before = mesh.counters();
  const Tensor seen = distribute(tensor, line, {shard(0)});
  EXPECT_EQ(seen.mesh(), line);
  EXPECT_EQ(seen.buffer()->address(), tensor.buffer()->address());
  EXPECT_EQ((mesh.counters() - before).conversions, 0);
  EXPECT_EQ((mesh.counters() - before).device_to_device_transfers, 0);
  expect_lies(seen, whole);
  // And on: rows of devices gather their own part alone.
  expect_lies(reshard(seen, {replicate()}), whole);
}

TEST(Reshard, AcrossViewsOfTheSameDevices) {
  const Mesh mesh = Mesh::open({.shape = {2, 3}});
  const Tensor whole = numbered({7, 5}, DType::i64);
  const std::vector<Mesh> views = {mesh,
                                   mesh.reshape({6}),
                                   mesh.permute({1, 0}),
                                   mesh.submesh(mesh.row(1)),
                                   mesh.submesh(mesh.column(0)),
                                   mesh.submesh({{1, 2}, {1, 2}})};
  for (const Mesh& from : views) {
    for (const Placement& placement : {replicate(), shard(0), shard(1)}) {
      Placements placements;
      placements.resize(static_cast<std::size_t>(from.shape().axes()), replicate());
      placements.back() = placement;
      const Tensor tensor = distribute(whole, from, placements);
      const Counters before = mesh.counters();
      for (const Mesh& to : views) {
        Placements wanted;
        wanted.resize(static_cast<std::size_t>(to.shape().axes()), shard(1));
        wanted[0] = shard(0);
        const Tensor moved = distribute(tensor, to, wanted);
        EXPECT_EQ(moved.mesh(), to);
        moved.wait();
        EXPECT_EQ((mesh.counters() - before).host_to_device_bytes, 0);
        expect_lies(moved, whole);
      }
    }
  }
}

TEST(Reshard, ReducesOntoASubmesh) {
  const Mesh mesh = Mesh::open({.shape = {2, 2}});
  std::vector<Tensor> parts;
  for (int i = 0; i < 4; ++i) {
    parts.push_back(
        Tensor::copy(std::vector<float>(6, static_cast<float>(1 << i)), {.shape = {6}}));
  }
  const Tensor tensor = from_shards(parts, mesh, {kSum, kSum});
  const Tensor sum = distribute(tensor, mesh.submesh(mesh.row(1)), {replicate(), shard(0)});
  EXPECT_EQ(sum.values<float>(), std::vector<float>(6, 15));
  EXPECT_EQ(sum.shard({0, 1}).values<float>(), std::vector<float>(3, 15));
}

TEST(Reshard, ThroughTheHostBetweenMeshesOfTheirOwn) {
  const Mesh one = Mesh::open({.shape = {2}});
  const Mesh other = Mesh::open({.shape = {3}, .backend = "null"});
  const Tensor whole = numbered({7, 5}, DType::i16);
  expect_lies(distribute(distribute(whole, one, {shard(0)}), other, {shard(1)}), whole);
}

TEST(Reshard, MaxReallyIsMaxAndNothingIsLostNear2To53) {
  const Mesh mesh = Mesh::open({.shape = {3}});
  const std::int64_t big = (std::int64_t{1} << 53) + 1;
  const std::vector<Tensor> parts = {
      Tensor::copy(std::vector<std::int64_t>{big, -5, 0}, {.shape = {3}}),
      Tensor::copy(std::vector<std::int64_t>{2, -7, -1}, {.shape = {3}}),
      Tensor::copy(std::vector<std::int64_t>{big + 1, -6, -2}, {.shape = {3}})};
  const auto reduced = [&](ReduceOp op) {
    return from_shards(parts, mesh, {partial(op)}).values<std::int64_t>();
  };
  using Values = std::vector<std::int64_t>;
  EXPECT_EQ(reduced(ReduceOp::max), (Values{big + 1, -5, 0}));
  EXPECT_EQ(reduced(ReduceOp::min), (Values{2, -7, -2}));
  EXPECT_EQ(reduced(ReduceOp::sum), (Values{2 * big + 3, -18, -3}));
  for (const ReduceOp op : {ReduceOp::max, ReduceOp::min, ReduceOp::sum, ReduceOp::prod}) {
    const Tensor tensor = from_shards(parts, mesh, {partial(op)});
    EXPECT_EQ(reshard(tensor, {replicate()}).values<std::int64_t>(), reduced(op));
    EXPECT_EQ(reshard(tensor, {shard(0)}).values<std::int64_t>(), reduced(op));
  }
}

TEST(Reshard, ReadsAndReducesToTheSameBits) {
  const Mesh mesh = Mesh::open({.shape = {2, 3}});
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    std::vector<Tensor> parts;
    for (int i = 0; i < 6; ++i) {
      std::vector<float> values(101);
      for (std::size_t k = 0; k < values.size(); ++k) {
        values[k] = 1.0F / static_cast<float>(1 + (k * 31 + static_cast<std::size_t>(i) * 17) % 97);
      }
      parts.push_back(as(Tensor::adopt(std::move(values), {.shape = {101}}), dtype));
    }
    const Tensor tensor = from_shards(parts, mesh, {kSum, kSum});
    const Bytes read = bytes_of(tensor);
    EXPECT_EQ(bytes_of(reshard(tensor, {replicate(), replicate()})), read);
    EXPECT_EQ(bytes_of(reshard(tensor, {shard(0), shard(0)})), read);
  }
}

TEST(Reshard, ReshapingKeepsPlacementsWhereElementsStay) {  // tt-metal#52331
  const Mesh mesh = Mesh::open({.shape = {2, 2}});
  const Tensor whole = numbered({5, 6}, DType::f32);
  const Tensor x = distribute(whole, mesh, {shard(0), replicate()});
  const Counters before = mesh.counters();
  for (const Shape& shape : {Shape{5, 2, 3}, Shape{5, 1, 6}, Shape{5, 6, 1}}) {
    const Tensor view = reshape(x, shape);
    EXPECT_EQ(view.spec().placements, (Placements{shard(0), replicate()}));
    EXPECT_EQ(view.buffer()->address(), x.buffer()->address());
    EXPECT_EQ(view.shard({1, 1}).shape()[0], 2);
  }
  EXPECT_EQ((mesh.counters() - before).conversions, 0);
  for (const Shape& shape : {Shape{30}, Shape{6, 5}, Shape{1, 5, 6}}) {
    const Tensor copied = reshape(x, shape);
    EXPECT_TRUE(copied.spec().is_replicated());
    EXPECT_EQ(bytes_of(copied.shard({1, 0})), bytes_of(whole));
  }
  EXPECT_EQ((mesh.counters() - before).host_to_device_bytes, 0);
  const Tensor parts = from_shards(std::vector(4, numbered({6}, DType::i32)), mesh, {kSum, kSum});
  const Tensor split_parts = reshape(parts, {2, 3});
  EXPECT_EQ(split_parts.spec().placements, (Placements{kSum, kSum}));
  EXPECT_EQ(bytes_of(split_parts), bytes_of(parts));
}

TEST(Reshard, PlansCanBeReadBeforeTheyRun) {
  const Mesh mesh = Mesh::open({.shape = {1, 2}});
  const Tensor part =
      from_shards(std::vector{numbered({4, 2}, DType::f32), numbered({4, 2}, DType::f32, 1)}, mesh,
                  {replicate(), kSum});
  EXPECT_EQ(plan_reshard(part, {}).to_string(),
            "all_reduce over axis 1: f32[4,2] (replicate, partial sum) -> (replicate, replicate), "
            "32 bytes a device");
}

TEST(Reshard, LeavesNothingBehind) {
  const Mesh mesh = Mesh::open({.shape = {2, 2}});
  {
    const Tensor tensor = distribute(numbered({9, 6}, DType::f32), mesh, {shard(0), shard(1)});
    TensorSpec wanted = tensor.spec();
    wanted.placements = {shard(1), replicate()};
    wanted.layout = Layout::blocked(1, 4);
    EXPECT_EQ(bytes_of(to_spec(tensor, mesh, wanted)), bytes_of(tensor));
  }
  mesh.queue(0).finish();
  EXPECT_EQ(memory_report(mesh).spaces[0].used_bytes, 0);
}

}  // namespace
}  // namespace tilemesh
