#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tilemesh/mesh/mesh_queue.hpp"
#include "tilemesh/tensor/transfer.hpp"

#include "tensor/tensor_state.hpp"

namespace tilemesh {
namespace {

using ::testing::HasSubstr;
using Values = std::vector<std::int32_t>;

Tensor host(const Shape& shape) {
  Values values(static_cast<std::size_t>(shape.element_count()));
  std::iota(values.begin(), values.end(), 1);
  return Tensor::adopt(std::move(values), {.shape = shape});
}

template <class Use>
void expect_deallocated(const Use& use, const std::string& label) {
  try {
    use();
    FAIL() << "went through";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::deallocated) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("\"" + label + "\""));
  }
}

std::int64_t used_bytes(const Mesh& mesh) {
  return memory_report(mesh).spaces[0].used_bytes;
}

TEST(Reshape, FreeingTheViewLeavesItsSourceAlive) {  // tt-metal#31145
  const Mesh mesh = Mesh::open({.shape = {1, 2}});
  for (const Tensor& x :
       {host({4, 6}), host({4, 6}).to_device(mesh, {.shape = {4, 6}, .dtype = DType::i32})}) {
    Tensor view = reshape(x, {24});
    EXPECT_EQ(view.values<std::int32_t>(), x.values<std::int32_t>());
    view.deallocate();
    EXPECT_FALSE(view.is_allocated());
    expect_deallocated([&] { view.to_host(); }, x.label());
    EXPECT_TRUE(x.is_allocated());
    EXPECT_EQ(x.values<std::int32_t>(), host({24}).values<std::int32_t>());
  }
}

TEST(Reshape, UseAfterTheSourceIsGoneIsATypedError) {  // tt-metal#40545
  const Mesh mesh = Mesh::open({.shape = {1, 2}});
  const TensorSpec spec{.shape = {4, 6}, .dtype = DType::i32};
  for (Tensor x : {host({4, 6}), to_device(host({4, 6}), mesh, spec, "weights")}) {
    const Tensor view = reshape(x, {2, 12});
    const Tensor view_of_view = reshape(view, {24});
    x.deallocate();
    for (const Tensor& gone : {view, view_of_view}) {
      EXPECT_FALSE(gone.is_allocated());
      expect_deallocated([&] { gone.to_host(); }, x.label());
      expect_deallocated([&] { gone.values<std::int32_t>(); }, x.label());
      expect_deallocated([&] { reshape(gone, {6, 4}); }, x.label());
      expect_deallocated([&] { copy(host(gone.shape()), gone); }, x.label());
    }
  }
  EXPECT_EQ(used_bytes(mesh), 0);
}

TEST(Reshape, AViewKeepsTheBytesWhenTheSourceHandleIsDropped) {
  const Mesh mesh = Mesh::open();
  Tensor view;
  {
    const Tensor x = to_device(host({4, 6}), mesh, {.shape = {4, 6}, .dtype = DType::i32});
    view = reshape(x, {3, 8});
  }
  EXPECT_EQ(view.shape(), Shape({3, 8}));
  EXPECT_EQ(view.values<std::int32_t>(), host({24}).values<std::int32_t>());
  view = {};
  mesh.queue(0).finish();
  EXPECT_EQ(used_bytes(mesh), 0);
}

TEST(Reshape, AViewTakesNoMemoryAndSeesWhatIsWrittenThroughEither) {
  const Mesh mesh = Mesh::open({.shape = {1, 2}});
  const TensorSpec spec{
      .shape = {4, 6}, .dtype = DType::i32, .placements = {replicate(), shard(0)}};
  const Tensor x = to_device(host({4, 6}), mesh, spec);
  const auto before = used_bytes(mesh);
  const Tensor view = reshape(x, {4, 2, 3});  // cut along a dim that both have
  EXPECT_EQ(used_bytes(mesh), before);
  EXPECT_EQ(view.buffer()->address(), x.buffer()->address());
  copy(Tensor::adopt(Values(24, 7), {.shape = {4, 2, 3}}), view);
  EXPECT_EQ(x.values<std::int32_t>(), Values(24, 7));
  copy(host({4, 6}), x);
  EXPECT_EQ(view.values<std::int32_t>(), host({24}).values<std::int32_t>());
}

TEST(Reshape, IsACopyWhereElementsWouldMove) {
  const Mesh mesh = Mesh::open({.shape = {1, 2}});
  TensorSpec cut{.shape = {4, 6}, .dtype = DType::i32, .placements = {replicate(), shard(1)}};
  TensorSpec blocked{.shape = {4, 6}, .dtype = DType::i32, .layout = Layout::blocked(1, 4)};
  const Values values = host({24}).values<std::int32_t>();
  for (const TensorSpec& spec : {cut, blocked}) {
    Tensor x = to_device(host({4, 6}), mesh, spec);
    const Tensor copied = reshape(x, {24});
    x.deallocate();
    EXPECT_EQ(copied.values<std::int32_t>(), values);
  }
  const Tensor transposed = Tensor::copy(values, {.shape = {6, 4}, .strides = {1, 6}});
  EXPECT_EQ(reshape(transposed, {24}).values<std::int32_t>(), transposed.values<std::int32_t>());
}

TEST(Reshape, OddShapes) {
  EXPECT_THROW(reshape(host({4, 6}), {25}), Error);
  EXPECT_EQ(reshape(host({1}), {}).item<std::int32_t>(), 1);
  EXPECT_EQ(reshape(host({}), {1, 1, 1}).item<std::int32_t>(), 1);
  EXPECT_TRUE(reshape(host({0, 3}), {5, 0}).values<std::int32_t>().empty());
  EXPECT_THROW(reshape(Tensor(), {1}), Error);
}

TEST(Reshape, AViewCannotBeGivenAwayButItsSourceCan) {
  const Mesh mesh = Mesh::open();
  const Tensor x = to_device(host({4}), mesh, {.shape = {4}, .dtype = DType::i32}, "state");
  const Tensor view = reshape(x, {2, 2});
  try {
    detail::take(*view.state(), "donated");
    FAIL() << "went through";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  }
  EXPECT_TRUE(view.is_allocated());
  const auto taken = detail::take(*x.state(), "donated to program \"step\"");
  EXPECT_FALSE(view.is_allocated());
  expect_deallocated([&] { view.to_host(); }, "state");
}

/// Every shard of uneven cuts, in several layouts, put together again.
TEST(Shard, ReadsTheValidExtentOfEachDevice) {
  const Mesh mesh = Mesh::open({.shape = {2, 3}});
  const Shape shape{5, 7};
  for (const Layout& layout : {Layout::rows(), Layout({1, 0}, {}), Layout::blocked(1, 2)}) {
    for (const auto& [first, second] :
         {std::pair{replicate(), shard(0)}, {shard(0), shard(1)}, {shard(1), replicate()}}) {
      TensorSpec spec{
          .shape = shape, .dtype = DType::i32, .placements = {first, second}, .layout = layout};
      const Tensor x = to_device(host(shape), mesh, spec);
      SCOPED_TRACE(x.spec().to_string());
      for (const MeshCoord& coord : mesh.range()) {
        const Extents extents = x.spec().extents(coord);
        Values expected;
        for (std::int64_t row = 0; row < extents[0].size; ++row) {
          for (std::int64_t column = 0; column < extents[1].size; ++column) {
            expected.push_back(static_cast<std::int32_t>((extents[0].begin + row) * 7 +
                                                         extents[1].begin + column + 1));
          }
        }
        if (layout.blocks().empty() || extents[1].size % 2 == 0 ||
            x.spec().shard_shape()[1] == extents[1].size) {
          const Tensor part = x.shard(coord);
          EXPECT_EQ(part.shape(), Shape({extents[0].size, extents[1].size}));
          EXPECT_EQ(part.mesh().device_count(), 1);
          EXPECT_EQ(part.values<std::int32_t>(), expected) << to_string(coord);
        }
      }
    }
  }
}

TEST(Shard, ReadsOneDeviceOfAReplicatedTensor) {  // tt-metal#38371
  const Mesh mesh = Mesh::open({.shape = {1, 2}});
  const Tensor x = to_device(host({3, 5}), mesh, {.shape = {3, 5}, .dtype = DType::i32});
  // Each device's copy is its own: a write into one is seen there alone.
  copy(Tensor::adopt(Values(15, -1), {.shape = {3, 5}}), x.shard({0, 1}));
  EXPECT_EQ(x.shard({0, 0}).values<std::int32_t>(), host({15}).values<std::int32_t>());
  EXPECT_EQ(x.shard({0, 1}).values<std::int32_t>(), Values(15, -1));
}

TEST(Shard, FollowsItsSourceIntoTheGrave) {
  const Mesh mesh = Mesh::open({.shape = {1, 2}});
  const TensorSpec spec{
      .shape = {4, 6}, .dtype = DType::i32, .placements = {replicate(), shard(0)}};
  Tensor x = to_device(host({4, 6}), mesh, spec, "weights");
  const auto before = used_bytes(mesh);
  Tensor view = x.shard({0, 0});
  EXPECT_EQ(used_bytes(mesh), before);
  view.deallocate();
  expect_deallocated([&] { view.to_host(); }, "weights");
  EXPECT_EQ(x.values<std::int32_t>(), host({24}).values<std::int32_t>());
  const Tensor other = x.shard({0, 1});
  const Tensor flat = reshape(other, {12});
  EXPECT_EQ(flat.values<std::int32_t>().front(), 13);
  x.deallocate();
  EXPECT_EQ(used_bytes(mesh), 0);  // the views hold nothing
  expect_deallocated([&] { other.to_host(); }, "weights");
  expect_deallocated([&] { flat.to_host(); }, "weights");
  expect_deallocated([&] { x.shard({0, 0}); }, "weights");
}

TEST(Shard, WaitsForItsSource) {
  const Mesh mesh = Mesh::open({.shape = {1, 2}});
  const Tensor x = to_device(host({1000}), mesh, {.shape = {1000}, .dtype = DType::i32});
  x.wait();
  EventSource gate;
  mesh.queue(0).enqueue_host([](int) {}, {.after = {gate.event()}});
  copy(Tensor::adopt(Values(1000, 3), {.shape = {1000}}), x);
  const Tensor part = x.shard({0, 1});
  EXPECT_FALSE(part.ready());
  gate.complete({});
  EXPECT_EQ(part.values<std::int32_t>(), Values(1000, 3));
  EXPECT_TRUE(part.ready());
}

TEST(Shard, RefusesWhatIsNotThere) {
  const Mesh mesh = Mesh::open({.shape = {1, 2}});
  const Tensor x = to_device(host({4}), mesh, {.shape = {4}, .dtype = DType::i32});
  EXPECT_THROW(x.shard({0, 2}), Error);
  EXPECT_THROW(x.shard({0}), Error);
  EXPECT_THROW(host({4}).shard({0, 0}), Error);
  EXPECT_THROW(Tensor().shard({0, 0}), Error);
}

TEST(Tensors, DeallocateMeansTheSameOnHostAndMesh) {
  const Mesh mesh = Mesh::open();
  const TensorSpec spec{.shape = {8}, .dtype = DType::i32};
  for (Tensor x : {host({8}), to_device(host({8}), mesh, spec, "x")}) {
    const Tensor second = x;
    EXPECT_TRUE(x.is_allocated());
    x.deallocate();
    EXPECT_FALSE(x.is_allocated());
    EXPECT_FALSE(second.is_allocated());
    x.deallocate();  // a second call does nothing
    for (const auto& use : std::vector<std::function<void()>>{
             [&] { second.to_host(); }, [&] { second.item<std::int32_t>(); },
             [&] { second.to_device(mesh, spec); }, [&] { copy(host({8}), second); },
             [&] {
               copy(second, host({8}));
             }}) {
      EXPECT_THROW(use(), Error);
    }
    expect_deallocated([&] { second.values<std::int32_t>(); }, x.label());
  }
  EXPECT_FALSE(Tensor().is_allocated());
}

TEST(Tensors, ReplicatedOnesCrossOnceEachWay) {
  const Mesh mesh = Mesh::open({.shape = {2, 4}});
  const Counters start = mesh.counters();
  const Tensor x = to_device(host({1000}), mesh, {.shape = {1000}, .dtype = DType::i32});
  const Tensor back = x.to_host();
  const Counters crossed = mesh.counters() - start;
  EXPECT_EQ(crossed.host_to_device_bytes, 4000);
  EXPECT_EQ(crossed.host_to_device_transfers, 1);
  EXPECT_EQ(crossed.device_to_host_bytes, 4000);
  EXPECT_EQ(crossed.device_to_host_transfers, 1);
  EXPECT_EQ(back.shape(), Shape({1000}));
}

TEST(Tensors, ToDeviceWantsASpaceOfTheDevice) {
  const Mesh mesh = Mesh::open();
  const TensorSpec on_host{.shape = {4}, .dtype = DType::i32, .space = Space::host};
  EXPECT_THROW(host({4}).to_device(mesh, on_host), Error);
  const TensorSpec spec{.shape = {4}, .dtype = DType::i32, .space = Space::l1};
  const Tensor x = host({4}).to_device(mesh, spec);
  EXPECT_EQ(x.spec().space, Space::l1);
  EXPECT_EQ(x.to_device(mesh, spec).buffer(), x.buffer());
}

}  // namespace
}  // namespace tilemesh
