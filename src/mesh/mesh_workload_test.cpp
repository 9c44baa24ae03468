#include "tilemesh/mesh/mesh_workload.hpp"

#include <cstring>

#include "mesh/mesh_core.hpp"
#include "mesh/testing.hpp"

namespace tilemesh {
namespace {

void scale(const KernelCall& call) {
  for (float& x : call.elements<float>(0)) {
    x *= call.argument<float>(0);
  }
}

class MeshWorkloadTest : public MeshTest {
 protected:
  std::vector<float> floats(const MeshBuffer& buffer) {
    const auto bytes = read_all(buffer);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  MeshBuffer ones(std::int64_t count) {
    MeshBuffer buffer = allocate(count * 4, "ones");
    const std::vector<float> values(static_cast<std::size_t>(count), 1.0F);
    queue_.enqueue_write_replicated(buffer, HostBytes::copy(std::span(values)));
    return buffer;
  }
  MeshRange all() const { return mesh_.range(); }
  MeshRange one(int index) const { return MeshRange::at(mesh_.shape().coord_of(index)); }
  static std::string refusal(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return std::string(to_string(error.code())) + ": " + error.what();
    }
    return "accepted";
  }
};
INSTANTIATE_TEST_SUITE_P(Meshes, MeshWorkloadTest, testing::ValuesIn(mesh_cases()), mesh_case_name);

TEST_P(MeshWorkloadTest, OneKernelOnAllDevices) {
  const MeshBuffer buffer = ones(3);
  MeshWorkload work;
  work.add(all(), scale, {.buffer = buffer, .args = {2.0F}});
  for (int i = 0; i < 3; ++i) {
    queue_.enqueue(work);
  }
  for (const float x : floats(buffer)) {
    ASSERT_EQ(x, 8.0F);
  }
}

TEST_P(MeshWorkloadTest, ColumnsWithArgumentsOfTheirOwn) {
  const MeshBuffer buffer = ones(2);
  MeshWorkload work;
  const int columns = mesh_.shape()[1];
  for (int column = 0; column < columns; ++column) {
    work.add(mesh_.column(column), scale,
             {.buffer = buffer, .args = {static_cast<float>(column + 2)}});
  }
  EXPECT_EQ(work.coords(), MeshRangeSet(all()));
  queue_.enqueue(work).wait();
  const auto values = floats(buffer);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], static_cast<float>(static_cast<int>(i / 2) % columns + 2));
  }
}

TEST_P(MeshWorkloadTest, ArgumentsPerCoordinate) {
  const MeshBuffer buffer = ones(1);
  MeshWorkload work;
  const MeshShape shape = mesh_.shape();
  work.add(all(), scale,
           {.buffer = buffer, .args_at = [shape](const MeshCoord& coord) {
              return std::vector<KernelArgument>{static_cast<float>(shape.index_of(coord) + 10)};
            }});
  queue_.enqueue(work);
  const auto values = floats(buffer);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], static_cast<float>(i + 10));
  }
}

TEST_P(MeshWorkloadTest, MixedKernelsAndCoordinatesWithoutOne) {
  const MeshBuffer buffer = ones(4);
  MeshWorkload work(mesh_);
  const int count = mesh_.device_count();
  work.add(one(0), scale, {.buffer = buffer, .args = {5.0F}});
  if (count > 2) {
    work.add(one(count - 1),
             [](const KernelCall& call) {
               call.elements<float>(0)[0] = static_cast<float>(call.device);
               call.elements<float>(1)[0] = -1;
             },
             {.buffers = {buffer.slice(0, 4), buffer.slice(12, 4)}});
  }
  queue_.enqueue(work);
  const auto values = floats(buffer);
  EXPECT_EQ(values[0], 5.0F);
  EXPECT_EQ(values[3], 5.0F);
  if (count > 2) {
    EXPECT_EQ(values[4], 1.0F) << "nobody touches it";
    const auto last = static_cast<std::size_t>(4 * (count - 1));
    EXPECT_EQ(
        (std::vector<float>(values.begin() + static_cast<std::ptrdiff_t>(last), values.end())),
        (std::vector<float>{static_cast<float>(count - 1), 1.0F, 1.0F, -1.0F}));
  }
}

TEST_P(MeshWorkloadTest, ArgumentsChangeBetweenEnqueuesNotAfterThem) {
  const MeshBuffer buffer = allocate(4);
  const auto append = [](const KernelCall& call) {
    auto& digits = call.elements<std::int32_t>(0)[0];
    digits = digits * 10 + call.argument<std::int32_t>(0);
  };
  queue_.enqueue_fill(buffer, {std::byte{0}});
  MeshWorkload work;
  work.add(all(), append, {.buffer = buffer, .args = {1}});
  const EventSource gate;
  queue_.wait_for(gate.event());
  queue_.enqueue(work);
  for (const int digit : {2, 3, 4}) {
    work.set_args(all(), {digit});
    queue_.enqueue(work);
  }
  if (mesh_.device_count() > 1) {
    work.set_args(one(0), {9});
    queue_.enqueue(work);
  }
  gate.complete({});
  const auto bytes = read_all(buffer);
  std::vector<std::int32_t> digits(bytes.size() / 4);
  std::memcpy(digits.data(), bytes.data(), bytes.size());
  EXPECT_EQ(digits[0], mesh_.device_count() > 1 ? 12349 : 1234);
  EXPECT_EQ(digits.back(), mesh_.device_count() > 1 ? 12344 : 1234);
}

TEST_P(MeshWorkloadTest, WhatCannotBeIsRefusedWhenItIsBuilt) {
  const MeshBuffer buffer = ones(1);
  MeshBuffer freed = allocate(4, "gone");
  freed.deallocate();
  const Mesh other = Mesh::open({.shape = {1, 1}, .dram_bytes = 1 << 16});
  const auto foreign = MeshBuffer::allocate(other, {.bytes_per_device = 4, .label = "foreign"});
  const auto add = [&](MeshWorkload& work, const MeshRangeSet& coords,
                       const KernelOptions& options) {
    const std::string text = refusal([&] { work.add(coords, scale, options); });
    return text.substr(0, text.find(':'));
  };
  MeshWorkload work;
  EXPECT_EQ(add(work, all(), {}), "invalid_argument") << "no mesh is known";
  EXPECT_EQ(add(work, MeshRange({0, 0}, {0, 8}), {.buffer = buffer}), "invalid_argument");
  EXPECT_EQ(add(work, MeshRange({0}, {0}), {.buffer = buffer}), "invalid_argument");
  EXPECT_EQ(add(work, one(0), {.buffer = buffer, .buffers = {freed}}), "deallocated");
  EXPECT_EQ(add(work, one(0), {.buffer = buffer, .buffers = {foreign}}), "invalid_argument");
  EXPECT_TRUE(work.launches().empty()) << "what was refused changed nothing";
  EXPECT_EQ(add(work, one(0), {.buffer = buffer, .args = {3.0F}}), "accepted");
  EXPECT_EQ(add(work, all(), {.buffer = buffer}), "invalid_argument");
  EXPECT_EQ(std::ssize(work.launches()), 1);
  EXPECT_NE(refusal([&] { work.set_args(MeshRange({5, 5}, {5, 5}), {}); }), "accepted");
  EXPECT_NE(refusal([&] { other.queue().enqueue(work); }), "accepted");
  EXPECT_NE(refusal([] { MeshKernel(std::shared_ptr<const DeviceKernel>()); }), "accepted");
  queue_.enqueue(work);
  EXPECT_EQ(floats(buffer)[0], 3.0F);
}

TEST_P(MeshWorkloadTest, AViewsCoordinatesAreTheWorkloads) {
  const int count = mesh_.device_count();
  const Mesh last = mesh_.submesh(one(count - 1));
  const MeshBuffer buffer = ones(1);
  MeshWorkload work(last);
  EXPECT_NE(refusal([&] {
              work.add(MeshRange({0, 1}, {0, 1}), scale, {.buffer = buffer});
            }),
            "accepted");
  work.add(last.range(), scale, {.buffer = buffer, .args = {7.0F}});
  queue_.enqueue(work);  // the parent's queue has all of its devices
  last.queue().enqueue(work);
  if (count > 1) {
    EXPECT_NE(refusal([&] { mesh_.submesh(one(0)).queue().enqueue(work); }), "accepted");
  }
  const auto values = floats(buffer);
  EXPECT_EQ(values.back(), 49.0F);
  EXPECT_EQ(values.front(), count > 1 ? 1.0F : 49.0F);
}

TEST_P(MeshWorkloadTest, AKernelThatThrowsNamesItselfAndItsCoordinate) {
  const std::int64_t before = used_bytes();
  {
    const MeshBuffer buffer = ones(1);
    const int last = mesh_.device_count() - 1;
    MeshWorkload work;
    work.add(all(),
             DeviceKernel{.name = "fragile",
                          .function =
                              [last](const KernelCall& call) {
                                if (call.device == last) {
                                  throw std::runtime_error("overheated");
                                }
                              }},
             {.buffer = buffer});
    const Event failed = queue_.enqueue(work);
    const Event skipped = mesh_.queue(1).enqueue_host([](int) {}, {.after = {failed}});
    for (const Event& event : {failed, skipped}) {
      try {
        event.wait();
        ADD_FAILURE() << "it didn't fail";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kernel_failed);
        EXPECT_EQ(std::string(error.what()), "kernel \"fragile\": device " +
                                                 to_string(mesh_.shape().coord_of(last)) +
                                                 ": overheated");
      }
    }
    MeshWorkload next;
    next.add(all(), scale, {.buffer = buffer, .args = {2.0F}});
    EXPECT_NO_THROW(queue_.enqueue(next).wait());
  }
  queue_.finish();
  mesh_.core().drain();
  EXPECT_EQ(used_bytes(), before);
}

TEST_P(MeshWorkloadTest, ItKeepsTheMemoryOfItsBuffers) {
  const std::int64_t before = used_bytes();
  {
    MeshWorkload work;
    {
      MeshBuffer buffer = ones(1000);
      work.add(all(), scale, {.buffer = buffer, .args = {2.0F}});
      buffer.deallocate();
      EXPECT_FALSE(buffer.is_allocated());
    }
    queue_.finish();
    mesh_.core().drain();
    EXPECT_GE(used_bytes(), before + 4000);
    EXPECT_NO_THROW(queue_.enqueue(work).wait());
  }
  mesh_.core().drain();
  EXPECT_EQ(used_bytes(), before);
}

TEST_P(MeshWorkloadTest, AnEmptyWorkloadWaitsForAfterAlone) {
  const EventSource gate;
  const Event done = queue_.enqueue(MeshWorkload(), {.after = {gate.event()}});
  EXPECT_FALSE(done.ready());
  gate.complete({});
  EXPECT_TRUE(done.ready());
  MeshWorkload nothing(mesh_);
  nothing.add(MeshRangeSet(), scale);
  EXPECT_TRUE(queue_.enqueue(nothing).ready());
}

}  // namespace
}  // namespace tilemesh
