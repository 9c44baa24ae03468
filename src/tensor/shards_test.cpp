#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tilemesh/mesh/mesh_queue.hpp"
#include "tilemesh/tensor/reshard.hpp"
#include "tilemesh/tensor/transfer.hpp"

namespace tilemesh {
namespace {

using ::testing::HasSubstr;
using Values = std::vector<std::int32_t>;

Tensor counting(const Shape& shape, std::int32_t first = 1) {
  Values values(static_cast<std::size_t>(shape.element_count()));
  std::iota(values.begin(), values.end(), first);
  return Tensor::adopt(std::move(values), {.shape = shape});
}

std::string message_of(const std::function<void()>& use) {
  try {
    use();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
    return error.what();
  }
  return "went through";
}

TEST(Shards, ComeAndGoWithoutACopy) {  // tt-metal#21747
  const Mesh mesh = Mesh::open({.shape = {1, 4}});
  const Tensor x = distribute(counting({13, 3}), mesh, {replicate(), shard(0)});
  const Counters before = mesh.counters();
  const auto shards = x.shards();
  ASSERT_EQ(shards.size(), 4U);
  EXPECT_EQ(shards[3].shape(), (Shape{1, 3}));

  // Cut on the parent, used on a submesh, and gathered again.
  const Mesh left = mesh.submesh({{0, 0}, {0, 1}});
  const Tensor part = from_shards(std::span(shards).first(2), left, {replicate(), shard(0)});
  EXPECT_EQ(part.shape(), (Shape{8, 3}));
  EXPECT_EQ(part.mesh(), left);
  std::vector<Tensor> again = part.shards();
  again.insert(again.end(), shards.begin() + 2, shards.end());
  const Tensor whole = from_shards(again, mesh, {replicate(), shard(0)});
  EXPECT_EQ(whole.buffer()->address(), x.buffer()->address());
  const Counters spent = mesh.counters() - before;
  EXPECT_EQ(spent.host_to_device_bytes + spent.device_to_host_bytes + spent.conversions +
                spent.device_to_device_transfers,
            0);
  EXPECT_EQ(part.values<std::int32_t>(), counting({8, 3}).values<std::int32_t>());
  EXPECT_EQ(whole.values<std::int32_t>(), counting({13, 3}).values<std::int32_t>());
}

TEST(Shards, OfABlockedTensorComeAndGoToo) {
  const Mesh mesh = Mesh::open({.shape = {2}});
  TensorSpec spec{.shape = {4, 20},
                  .dtype = DType::i32,
                  .placements = {shard(0)},
                  .layout = Layout::blocked(1, 16),
                  .mesh = {2}};
  const Tensor x = to_spec(counting({4, 20}), mesh, spec);
  const Tensor again = from_shards(x.shards(), mesh, {shard(0)});
  EXPECT_EQ(again.spec(), spec);
  EXPECT_EQ(again.buffer()->address(), x.buffer()->address());
}

TEST(Shards, OfAnOffsetSubmeshAreItsOwn) {  // tt-metal#53481
  const Mesh mesh = Mesh::open({.shape = {2, 3}});
  const Mesh corner = mesh.submesh({{1, 1}, {1, 2}});
  const Tensor x = distribute(counting({5, 2}), corner, {replicate(), shard(0)});
  EXPECT_EQ(x.shard({0, 0}).values<std::int32_t>(), (Values{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(x.shard({0, 1}).values<std::int32_t>(), (Values{7, 8, 9, 10}));
}

TEST(FromShards, OfTheHostGoToTheirDevices) {
  for (const char* backend : {"cpu", "null"}) {
    const Mesh mesh = Mesh::open({.shape = {2, 2}, .backend = backend});
    const std::vector<Tensor> shards = {counting({2, 3}, 1), counting({2, 2}, 7),
                                        counting({1, 3}, 20), counting({1, 2}, 30)};
    const Counters before = mesh.counters();
    const Tensor x = from_shards(shards, mesh, {shard(0), shard(1)});
    EXPECT_EQ(x.shape(), (Shape{3, 5}));
    EXPECT_EQ(x.values<std::int32_t>(),
              (Values{1, 2, 3, 7, 8, 4, 5, 6, 9, 10, 20, 21, 22, 30, 31}));
    EXPECT_EQ((mesh.counters() - before).host_to_device_bytes, 60);
  }
}

TEST(FromShards, MoveToTheirDevicesFromOthers) {  // tt-metal#23040
  const Mesh mesh = Mesh::open({.shape = {3}});
  Tensor x = distribute(counting({3, 4}), mesh, {shard(0)});
  for (int round = 1; round <= 7; ++round) {
    const auto shards = x.shards();
    x = from_shards(std::vector{shards[2], shards[0], shards[1]}, mesh, {shard(0)});
    const Values first = x.shard({round % 3}).values<std::int32_t>();
    EXPECT_EQ(first, (Values{1, 2, 3, 4})) << round;
  }
}

TEST(FromShards, OfAnotherMeshCome) {
  const Mesh mesh = Mesh::open({.shape = {2}});
  const Mesh other = Mesh::open({.shape = {2}, .backend = "null"});
  const Tensor x = distribute(counting({4, 2}), other, {shard(0)});
  const Tensor y = from_shards(x.shards(), mesh, {shard(0)});
  EXPECT_EQ(y.mesh(), mesh);
  EXPECT_EQ(y.values<std::int32_t>(), x.values<std::int32_t>());
}

TEST(FromShards, MayBeEmptyOrOfRankNothing) {
  const Mesh mesh = Mesh::open({.shape = {3}});
  const Tensor empty = from_shards(
      std::vector{counting({1, 2}), counting({1, 2}, 3), counting({0, 2})}, mesh, {shard(0)});
  EXPECT_EQ(empty.values<std::int32_t>(), (Values{1, 2, 3, 4}));
  const Tensor scalars = from_shards(std::vector{counting({}, 1), counting({}, 2), counting({}, 3)},
                                     mesh, {partial(ReduceOp::sum)});
  EXPECT_EQ(scalars.item<std::int32_t>(), 6);
}

TEST(FromShards, NameTheOneThatDoesntFit) {
  const Mesh mesh = Mesh::open({.shape = {2}});
  const auto make = [&](const Tensor& a, const Tensor& b) {
    return message_of([&] { from_shards(std::vector{a, b}, mesh, {shard(0)}); });
  };
  EXPECT_THAT(make(counting({1, 2}), counting({3, 2})), HasSubstr("(0) is i32[1,2], but should"));
  EXPECT_THAT(make(counting({2, 2}), counting({2, 3})), HasSubstr("(1)"));
  EXPECT_THAT(make(counting({2, 2}), counting({2})), HasSubstr("(1)"));
  EXPECT_THAT(make(counting({2}), Tensor::copy(std::vector<float>{1, 2}, {.shape = {2}})),
              HasSubstr("f32[2]"));
  EXPECT_THAT(message_of([&] { from_shards(std::vector{counting({2})}, mesh, {shard(0)}); }),
              HasSubstr("got 1"));
  EXPECT_THAT(message_of([&] {
                from_shards(std::vector{counting({2}), counting({2})}, mesh, {shard(1)});
              }),
              HasSubstr("shards dim 1"));
}

TEST(FromShards, OfAFreedTensorSaySo) {
  const Mesh mesh = Mesh::open({.shape = {2}});
  Tensor x = distribute(counting({4, 2}), mesh, {shard(0)});
  const auto shards = x.shards();
  const Tensor again = from_shards(shards, mesh, {shard(0)});
  x.deallocate();
  EXPECT_FALSE(again.is_allocated());
  EXPECT_THROW(again.to_host(), Error);
  EXPECT_THROW(from_shards(shards, mesh, {shard(0)}), Error);
}

TEST(Split, AndFromShardsOnTheHostCopyNothing) {
  const Tensor x = counting({5, 4});
  const auto shards = split(x, {2, 2}, {shard(0), shard(1)});
  ASSERT_EQ(shards.size(), 4U);
  EXPECT_EQ(shards[3].values<std::int32_t>(), (Values{15, 16, 19, 20}));
  const Tensor again = from_shards(shards, MeshShape{2, 2}, {shard(0), shard(1)});
  EXPECT_EQ(again.host_view().data, x.host_view().data);
  EXPECT_EQ(again.values<std::int32_t>(), x.values<std::int32_t>());
  const Tensor copied =
      from_shards(std::vector{counting({1, 2}), counting({1, 2}, 3)}, MeshShape{2}, {shard(0)});
  EXPECT_EQ(copied.values<std::int32_t>(), (Values{1, 2, 3, 4}));
  const Tensor first =
      from_shards(std::vector{counting({2}), counting({2}, 3)}, MeshShape{2}, {replicate()});
  EXPECT_EQ(first.values<std::int32_t>(), (Values{1, 2}));
  EXPECT_THROW(split(x, {2}, {partial(ReduceOp::sum)}), Error);
  EXPECT_THROW(from_shards(shards, MeshShape{4}, {partial(ReduceOp::sum)}), Error);
}

TEST(Shards, MayOutliveTheHandleOfTheirSource) {
  const Mesh mesh = Mesh::open({.shape = {2}});
  Tensor again;
  {
    const Tensor x = distribute(counting({4, 2}), mesh, {shard(0)});
    again = from_shards(x.shards(), mesh, {shard(0)});
  }
  EXPECT_EQ(again.values<std::int32_t>(), counting({4, 2}).values<std::int32_t>());
  again = {};
  mesh.queue(0).finish();
  EXPECT_EQ(memory_report(mesh).spaces[0].used_bytes, 0);
}

}  // namespace
}  // namespace tilemesh
