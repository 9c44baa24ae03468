#include "tilemesh/tensor/transfer.hpp"

#include <cstdint>
#include <iostream>
#include <numeric>
#include <ostream>
#include <random>

#include <gtest/gtest.h>

#include <sys/mman.h>

#include "tilemesh/mesh/mesh_queue.hpp"

namespace tilemesh {

void PrintTo(const MeshShape& shape, std::ostream* out) {
  *out << shape.to_string();
}

namespace {

std::vector<std::int32_t> iota(std::int64_t count) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 1);
  return values;
}

Tensor host(const Shape& shape) {
  return Tensor::adopt(iota(shape.element_count()), {.shape = shape});
}

/// Specs of every kind: any order of dims, up to two blocks, any placements, either space.
class RandomSpecs {
 public:
  explicit RandomSpecs(unsigned seed) : random_(seed) {}

  TensorSpec next(const MeshShape& mesh) {
    TensorSpec spec;
    spec.dtype = DType::i32;
    spec.mesh = mesh;
    Dims sizes;
    const int rank = number(0, 4);
    for (int d = 0; d < rank; ++d) {
      sizes.push_back(number(0, 12) == 0 ? 0 : number(1, 19));
    }
    spec.shape = Shape(sizes);
    spec.layout = layout(rank);
    spec.placements = placements(mesh, rank);
    spec.space = number(0, 3) == 0 ? Space::l1 : Space::dram;
    return spec;
  }
  Placements placements(const MeshShape& mesh, int rank) {
    Placements result;
    for (int axis = 0; axis < mesh.axes(); ++axis) {
      result.push_back(rank == 0 || number(0, 1) == 0 ? replicate() : shard(number(0, rank - 1)));
    }
    return result;
  }
  Layout layout(int rank) {
    Layout::Order order;
    for (int d = 0; d < rank; ++d) {
      order.push_back(static_cast<std::int8_t>(d));
    }
    std::shuffle(order.begin(), order.end(), random_);
    Layout::Blocks blocks;
    for (int i = number(0, 2); i > 0 && rank > 0; --i) {
      blocks.push_back({number(0, rank - 1), number(2, 8)});
    }
    return {order, blocks};
  }
  int number(int low, int high) { return std::uniform_int_distribution(low, high)(random_); }

 private:
  std::mt19937 random_;
};

/// Room for three of the largest: four dims of 19, one of which is padded to 64, its blocks' size.
constexpr std::int64_t kL1Bytes = 8 << 20;

/// Printed at once: a trace doesn't outlive what is thrown.
unsigned any_seed() {
  const unsigned seed = std::random_device()();
  std::cout << "seed " << seed << '\n';
  return seed;
}

class Transfers : public testing::TestWithParam<MeshShape> {};

TEST_P(Transfers, WhatGoesInComesOutInEverySpec) {
  const unsigned seed = any_seed();
  RandomSpecs specs(seed);
  const Mesh mesh = Mesh::open({.shape = GetParam(), .l1_bytes = kL1Bytes});
  for (int i = 0; i < 100; ++i) {
    const TensorSpec spec = specs.next(GetParam());
    SCOPED_TRACE(spec.to_string());
    const Tensor source = host(spec.shape);
    const Tensor there = to_spec(source, mesh, spec);
    EXPECT_EQ(there.spec(), spec);
    EXPECT_EQ(there.values<std::int32_t>(), source.values<std::int32_t>());
  }
}

TEST_P(Transfers, OneSpecBecomesAnyOtherAndBothKeepTheirValues) {
  const unsigned seed = any_seed();
  RandomSpecs specs(seed);
  const Mesh mesh = Mesh::open({.shape = GetParam(), .l1_bytes = kL1Bytes});
  for (int i = 0; i < 60; ++i) {
    const TensorSpec from = specs.next(GetParam());
    TensorSpec to = from;
    to.layout = specs.layout(from.shape.rank());
    to.placements = specs.placements(GetParam(), from.shape.rank());
    SCOPED_TRACE(from.to_string() + " to " + to.to_string());
    const auto values = iota(from.shape.element_count());
    const Tensor first = to_spec(host(from.shape), mesh, from);
    const Tensor second = to_spec(first, mesh, to);
    EXPECT_EQ(second.values<std::int32_t>(), values);
    EXPECT_EQ(first.values<std::int32_t>(), values);
    const Tensor third = zeros(mesh, to);
    copy(first, third);
    EXPECT_EQ(third.values<std::int32_t>(), values);
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, Transfers,
                         testing::Values(MeshShape{1, 1}, MeshShape{1, 2}, MeshShape{2, 3},
                                         MeshShape{7}, MeshShape{2, 2, 2}),
                         [](const auto& mesh) { return "Mesh" + mesh.param.to_string(); });

TEST(Transfer, PaddingIsZeroEvenInFilledAndEmptyTensors) {
  const Mesh mesh = Mesh::open();
  TensorSpec spec{.shape = {3, 5}, .dtype = DType::i32, .layout = Layout::blocked(1, 4)};
  for (const Tensor& tensor :
       {to_spec(host({3, 5}), mesh, spec), empty(mesh, spec), zeros(mesh, spec)}) {
    tensor.wait();
    const auto buffer = tensor.buffer();
    const auto* elements = reinterpret_cast<const std::int32_t*>(mesh.device(0).map(Space::dram) +
                                                                 buffer->address().offset);
    // Rows of two blocks of four: columns 5 to 7 of each row are padding.
    for (int row = 0; row < 3; ++row) {
      for (int column = 5; column < 8; ++column) {
        EXPECT_EQ(elements[(row * 2 + column / 4) * 4 + column % 4], 0);
      }
    }
  }
}

TEST(Transfer, ACopyIntoATensorTakesItsTurnBehindCommandsThatUseIt) {
  const Mesh mesh = Mesh::open({.shape = {1, 2}});
  const TensorSpec spec{.shape = {1000}, .dtype = DType::i32};
  const Tensor slot = to_spec(host({1000}), mesh, spec);
  slot.wait();
  EventSource gate;
  std::vector<std::int32_t> seen(2);
  const auto buffer = slot.buffer();
  mesh.queue(0).enqueue_host(
      [&](int device) {
        const auto* elements = reinterpret_cast<const std::int32_t*>(
            mesh.device(device).map(Space::dram) + buffer->address().offset);
        seen[static_cast<std::size_t>(device)] = elements[999];
      },
      {.after = {gate.event()}});
  copy(Tensor::adopt(std::vector<std::int32_t>(1000, -1), {.shape = {1000}}), slot);
  EXPECT_FALSE(slot.ready());
  gate.complete({});
  EXPECT_EQ(slot.values<std::int32_t>(), std::vector<std::int32_t>(1000, -1));
  EXPECT_EQ(seen, (std::vector<std::int32_t>{1000, 1000}));
}

TEST(Transfer, CopyAllocatesNoDeviceMemory) {
  const Mesh mesh = Mesh::open();
  const Tensor slot = empty(mesh, {.shape = {64}, .dtype = DType::i32});
  const auto used = [&] {
    return memory_report(mesh).spaces[0].used_bytes;
  };
  const auto before = used();
  for (int i = 0; i < 10; ++i) {
    copy(host({64}), slot);
  }
  EXPECT_EQ(used(), before);
  EXPECT_EQ(slot.values<std::int32_t>(), iota(64));
}

/// A host array of which each row lies two gigabytes after the one before, on a mesh whose buffers
/// lie beyond four: offsets of both sides need more than 32 bits, and only what is touched takes
/// memory.
TEST(Transfer, AHostArrayOfMoreThanFourGigabytesKeepsItsValues) {
  constexpr std::int64_t kGiga = std::int64_t{1} << 30;
  constexpr std::int64_t kColumns = 5;
  const Shape shape{4, kColumns};
  const Dims strides{2 * kGiga / 4, 1};
  const std::size_t elements = static_cast<std::size_t>(3 * strides[0] + kColumns);
  void* const memory = ::mmap(nullptr, elements * 4, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    GTEST_SKIP() << "this machine has no 6 GiB of addresses";
  }
  const std::shared_ptr<void> owner(memory, [elements](void* m) { ::munmap(m, elements * 4); });
  const std::span array(static_cast<std::int32_t*>(memory), elements);
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    array[static_cast<std::size_t>(i / kColumns * strides[0] + i % kColumns)] =
        static_cast<std::int32_t>(i + 1);
  }
  const Tensor source = Tensor::borrow(array, {.shape = shape, .strides = strides}, owner);
  EXPECT_EQ(source.values<std::int32_t>(), iota(4 * kColumns));
  // A null device touches nothing when it allocates.
  const Mesh mesh = Mesh::open({.shape = {1, 2}, .backend = "null", .dram_bytes = 5 * kGiga});
  const auto below = MeshBuffer::allocate(mesh, {.bytes_per_device = 4 * kGiga, .label = "below"});
  for (const Placement& placement : {replicate(), shard(0), shard(1)}) {
    const TensorSpec spec{
        .shape = shape, .dtype = DType::i32, .placements = {replicate(), placement}};
    const Tensor there = to_device(source, mesh, spec);
    EXPECT_GE(there.buffer()->address().offset, 4 * kGiga);
    EXPECT_EQ(there.values<std::int32_t>(), iota(4 * kColumns)) << spec.to_string();
  }
}

TEST(Transfer, PlansSayWhatWouldHappen) {
  TensorSpec rows{.shape = {8, 8}};
  TensorSpec blocked = rows;
  blocked.layout = Layout::blocked(1, 8);
  EXPECT_TRUE(plan(rows, rows).is_noop());
  EXPECT_EQ(plan(rows, blocked).to_string(), "change of layout: 256 bytes");
  TensorSpec on_host = rows;
  on_host.space = Space::host;
  EXPECT_EQ(plan(on_host, rows).to_string(), "upload: 256 bytes");
  EXPECT_EQ(plan(rows, on_host).to_string(), "download: 256 bytes");
  EXPECT_THROW(plan(rows, {.shape = {8, 9}}), Error);
}

TEST(Transfer, ATensorThatDiedBeforeItsUploadEndedHarmsNobody) {
  const Mesh mesh = Mesh::open({.shape = {1, 2}});
  const TensorSpec spec{.shape = {1 << 18}, .dtype = DType::i32};
  for (int i = 0; i < 20; ++i) {
    to_spec(host({1 << 18}), mesh, spec);
    const Tensor next = zeros(mesh, spec);
    const auto values = next.values<std::int32_t>();
    EXPECT_EQ(std::count(values.begin(), values.end(), 0), 1 << 18);
  }
  mesh.queue(0).finish();
  EXPECT_EQ(memory_report(mesh).spaces[0].used_bytes, 0);
}

TEST(Transfer, AFailedCommandLeavesTensorsUsable) {
  const Mesh mesh = Mesh::open();
  const TensorSpec spec{.shape = {4}, .dtype = DType::i32};
  const Tensor slot = to_spec(host({4}), mesh, spec);
  EventSource broken;
  const Event event = mesh.queue(0).enqueue_host([](int) {}, {.after = {broken.event()}});
  broken.complete(Error(ErrorCode::kernel_failed, "the first cause"));
  EXPECT_THROW(event.wait(), Error);
  EXPECT_EQ(slot.values<std::int32_t>(), iota(4));
}

}  // namespace
}  // namespace tilemesh
