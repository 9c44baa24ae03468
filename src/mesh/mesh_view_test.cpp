#include <algorithm>
#include <any>
#include <atomic>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "tilemesh/mesh/mesh_trace.hpp"
#include "tilemesh/mesh/mesh_workload.hpp"

#include "mesh/mesh_core.hpp"
#include "mesh/testing.hpp"

namespace tilemesh {
namespace {

MeshOptions options(const MeshShape& shape) {
  return {.shape = shape, .backend = "cpu", .dram_bytes = 1 << 20, .l1_bytes = 64 << 10};
}

/// Which devices of `whole` a view has, in the view's order.
std::vector<int> numbers(const Mesh& whole, const Mesh& view) {
  std::vector<int> result;
  for (int i = 0; i < view.device_count(); ++i) {
    for (int k = 0; k < whole.device_count(); ++k) {
      if (&view.device(i) == &whole.device(k)) {
        result.push_back(k);
      }
    }
  }
  return result;
}

ErrorCode code_of(const auto& use) {
  try {
    use();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::internal;
}

MeshBuffer allocate(const Mesh& mesh, std::int64_t bytes, const std::string& label = "buffer") {
  return MeshBuffer::allocate(mesh, {.bytes_per_device = bytes, .label = label});
}

std::int64_t used(const Mesh& mesh) {
  return memory_report(mesh).spaces.at(0).used_bytes;
}

std::vector<int> read_first_bytes(const Mesh& mesh, const MeshBufferView& buffer) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(mesh.device_count()));
  std::vector<ShardRead> reads;
  for (int i = 0; i < mesh.device_count(); ++i) {
    reads.push_back({.coord = mesh.shape().coord_of(i),
                     .host = MutableHostBytes::borrow(
                         std::span(bytes).subspan(static_cast<std::size_t>(i), 1), nullptr),
                     .region = rows(1, 1)});
  }
  mesh.queue().enqueue_read(buffer, reads).wait();
  std::vector<int> values;
  for (const std::byte byte : bytes) {
    values.push_back(static_cast<int>(byte));
  }
  return values;
}

TEST(MeshView, SubmeshHasTheDevicesOfItsRange) {
  const Mesh mesh = Mesh::open(options({2, 4}));
  const Mesh view = mesh.submesh({{0, 1}, {1, 2}});
  EXPECT_EQ(view.shape(), MeshShape({2, 2}));
  EXPECT_EQ(numbers(mesh, view), (std::vector{1, 2, 5, 6}));
  EXPECT_EQ(numbers(mesh, view.submesh({{1, 0}, {1, 1}})), (std::vector{5, 6}));
  EXPECT_EQ(mesh.submesh(mesh.range()), mesh);
  EXPECT_EQ(numbers(mesh, mesh.submesh(mesh.row(1))), (std::vector{4, 5, 6, 7}));
  EXPECT_EQ(numbers(mesh, mesh.submesh(mesh.column(3))), (std::vector{3, 7}));
  EXPECT_EQ(mesh.column(3), MeshRange({0, 3}, {1, 3}));
}

TEST(MeshView, ReshapeKeepsTheOrderAndPermuteMovesAxes) {
  const Mesh mesh = Mesh::open(options({2, 3}));
  EXPECT_EQ(numbers(mesh, mesh.reshape({3, 2})), (std::vector{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(mesh.reshape({6}).shape(), MeshShape({6}));
  EXPECT_EQ(numbers(mesh, mesh.permute({1, 0})), (std::vector{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(mesh.permute({1, 0}).shape(), MeshShape({3, 2}));
  EXPECT_EQ(mesh.permute({1, 0}).permute({1, 0}), mesh);
  EXPECT_EQ(mesh.permute({0, 1}), mesh);
  EXPECT_EQ(mesh.reshape({3, 2}).reshape({2, 3}), mesh);
  EXPECT_FALSE(mesh.reshape({3, 2}) == mesh);
  const Mesh cube = mesh.reshape({1, 2, 3}).permute({2, 0, 1});
  EXPECT_EQ(cube.shape(), MeshShape({3, 1, 2}));
  EXPECT_EQ(numbers(mesh, cube), (std::vector{0, 3, 1, 4, 2, 5}));
}

TEST(MeshView, RefusesWhatCannotBe) {
  const Mesh mesh = Mesh::open(options({2, 2}));
  const auto invalid = ErrorCode::invalid_argument;
  EXPECT_EQ(code_of([&] { (void)mesh.submesh({{0, 0}, {0, 2}}); }), invalid);
  EXPECT_EQ(code_of([&] { (void)mesh.submesh({{0}, {1}}); }), invalid);
  EXPECT_EQ(code_of([&] { (void)mesh.reshape({3}); }), invalid);
  EXPECT_EQ(code_of([&] { (void)mesh.reshape({0, 0}); }), invalid);
  EXPECT_EQ(code_of([&] { (void)mesh.permute({0}); }), invalid);
  EXPECT_EQ(code_of([&] { (void)mesh.permute({0, 0}); }), invalid);
  EXPECT_EQ(code_of([&] { (void)mesh.permute({1, 2}); }), invalid);
  EXPECT_EQ(code_of([&] { (void)mesh.row(2); }), invalid);
  EXPECT_EQ(code_of([&] { (void)mesh.column(-1); }), invalid);
  EXPECT_EQ(code_of([&] { Mesh::open(options({0, 0})); }), invalid);
}

TEST(MeshView, ItsQueuesAreThePartOfTheParentsThatItSees) {
  const Mesh mesh = Mesh::open(options({1, 4}));
  const Mesh right = mesh.submesh({{0, 2}, {0, 3}});
  EXPECT_EQ(&right.queue(), &mesh.submesh({{0, 2}, {0, 3}}).queue()) << "a queue stays";
  EXPECT_NE(&right.queue(), &mesh.queue());
  const EventSource gate;
  std::vector<int> order;
  mesh.queue().enqueue_host(
      [&order](int index) {
        if (index == 2) {
          order.push_back(1);
        }
      },
      {.after = {gate.event()}});
  const Event second = right.queue().enqueue_host([&order](int index) {
    if (index == 0) {
      order.push_back(2);
    }
  });
  EXPECT_FALSE(right.queue().idle());
  EXPECT_FALSE(second.ready()) << "the parent's command is before it on the same device";
  gate.complete({});
  second.wait();
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST(MeshView, SiblingsDoNotWaitForEachOther) {
  const Mesh mesh = Mesh::open(options({1, 2}));
  const Mesh left = mesh.submesh(mesh.column(0));
  const Mesh right = mesh.submesh(mesh.column(1));
  const EventSource gate;
  const Event held = left.queue().enqueue_host([](int) {}, {.after = {gate.event()}});
  right.queue().enqueue_host([](int) {}).wait();
  right.queue().finish();
  {
    const MeshBuffer buffer = allocate(right, 100);
    right.queue().enqueue_fill(buffer, {std::byte{1}});
  }
  EXPECT_TRUE(right.core().drain(right.view(), std::chrono::hours(1)));
  EXPECT_EQ(used(right), 0) << "a free waits for its own devices alone";
  EXPECT_FALSE(held.ready());
  gate.complete({});
  held.wait();
}

TEST(MeshView, ParentAndSubmeshAreUsedInTurn) {
  const Mesh mesh = Mesh::open(options({2, 2}));
  const Mesh lower = mesh.submesh(mesh.row(1));
  const MeshBuffer of_all = allocate(mesh, 64);
  const MeshBuffer of_some = allocate(lower, 64);
  for (int round = 0; round < 100; ++round) {
    mesh.queue().enqueue_fill(of_all, {std::byte{1}});
    lower.queue().enqueue_fill(of_all, {std::byte{2}});
    mesh.queue().enqueue_fill(of_some, {std::byte{3}});
    ASSERT_EQ(read_first_bytes(mesh, of_all), (std::vector{1, 1, 2, 2}));
    ASSERT_EQ(read_first_bytes(lower, of_some), (std::vector{3, 3}));
    mesh.queue().enqueue_copy(of_some, of_all);
    ASSERT_EQ(read_first_bytes(mesh, of_all), (std::vector{1, 1, 3, 3}));
  }
}

TEST(MeshView, RefusesABufferOfOtherDevices) {
  const Mesh mesh = Mesh::open(options({1, 3}));
  const Mesh left = mesh.submesh({{0, 0}, {0, 1}});
  const Mesh right = mesh.submesh({{0, 1}, {0, 2}});
  const MeshBuffer buffer = allocate(right, 64);
  std::byte byte{};
  const auto invalid = ErrorCode::invalid_argument;
  EXPECT_EQ(code_of([&] { left.queue().enqueue_fill(buffer, {byte}); }), invalid);
  EXPECT_EQ(code_of([&] { (void)read_first_bytes(left, buffer); }), invalid);
  EXPECT_EQ(code_of([&] { left.queue().enqueue_copy(buffer, allocate(left, 64)); }), invalid);
  EXPECT_EQ(code_of([&] { left.queue().enqueue_write_replicated(buffer, &byte, 1, nullptr); }),
            invalid);
  const ShardWrite write = {.coord = {0, 1},
                            .host = HostBytes::borrow(std::span(&byte, 1), nullptr),
                            .region = rows(1, 1)};
  left.queue().enqueue_write(buffer, {&write, 1}).wait();  // the one device that both have
}

TEST(MeshView, ParentAndSubmeshNeverShareBytes) {
  const Mesh mesh = Mesh::open(options({1, 3}));
  const Mesh one = mesh.submesh({{0, 1}, {0, 1}});
  const Mesh pair = mesh.submesh({{0, 1}, {0, 2}});
  std::vector<std::pair<Mesh, MeshBuffer>> live;
  for (int round = 0; round < 30; ++round) {
    const Mesh& where = round % 3 == 0 ? mesh : round % 3 == 1 ? one : pair;
    live.emplace_back(where, allocate(where, 1000 + 64 * round));
    where.queue().enqueue_fill(live.back().second, {static_cast<std::byte>(round)});
    if (round % 5 == 4) {
      live.erase(live.begin() + round % 3);
    }
  }
  for (const auto& [where, buffer] : live) {
    const auto values = read_first_bytes(where, buffer);
    EXPECT_EQ(std::set<int>(values.begin(), values.end()).size(), 1U);
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;  // on device 1, which all have
  for (const auto& [where, buffer] : live) {
    ranges.emplace_back(buffer.address().offset, buffer.bytes_per_device());
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    EXPECT_GE(ranges[i].first, ranges[i - 1].first + ranges[i - 1].second);
  }
}

TEST(MeshView, SiblingsMayHaveTheSameAddressAndReportTheirOwn) {
  const Mesh mesh = Mesh::open(options({1, 2}));
  const Mesh left = mesh.submesh(mesh.column(0));
  const Mesh right = mesh.submesh(mesh.column(1));
  const MeshBuffer a = allocate(left, 4096, "a");
  const MeshBuffer b = allocate(right, 1024, "b");
  EXPECT_EQ(a.address(), b.address());
  EXPECT_EQ(used(left), 4096);
  EXPECT_EQ(used(right), 1024);
  const SpaceReport all = memory_report(mesh).spaces.at(0);
  EXPECT_EQ(all.used_bytes, 4096) << "of the device with most";
  EXPECT_EQ(all.largest_hole_bytes, (1 << 20) - 4096);
  ASSERT_EQ(all.holders.size(), 2U);
  EXPECT_EQ(all.holders[0].label, "a");
  const SpaceReport of_right = memory_report(right).spaces.at(0);
  ASSERT_EQ(of_right.holders.size(), 1U);
  EXPECT_EQ(of_right.holders[0].label, "b");
}

TEST(MeshView, AShortageOnASubmeshSpeaksOfItsDevices) {
  const Mesh mesh = Mesh::open(options({1, 2}));
  const Mesh left = mesh.submesh(mesh.column(0));
  const Mesh right = mesh.submesh(mesh.column(1));
  const MeshBuffer a = allocate(left, 900 << 10, "mine");
  const MeshBuffer b = allocate(right, 700 << 10, "others");
  try {
    allocate(left, 200 << 10, "next");
    FAIL() << "it fitted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_EQ(std::string(error.what()),
              "asked 200 KiB of dram for \"next\" on submesh 1x1: 124 KiB of 1 MiB are free, the "
              "largest hole has 124 KiB; largest holders: \"mine\" 900 KiB");
  }
  EXPECT_NO_THROW(allocate(right, 200 << 10));
  EXPECT_THROW(allocate(mesh, 200 << 10), Error);
}

TEST(MeshView, AShortageWaitsForWhatTheParentFrees) {
  const Mesh mesh = Mesh::open(options({1, 2}));
  const Mesh right = mesh.submesh(mesh.column(1));
  for (int round = 0; round < 20; ++round) {
    const EventSource gate;
    MeshBuffer of_all = allocate(mesh, 700 << 10);
    mesh.submesh(mesh.column(0)).queue().enqueue_host([](int) {}, {.after = {gate.event()}});
    mesh.queue().enqueue_fill(of_all, {std::byte{1}});
    of_all.deallocate();  // returns when the left device has come to the fill
    std::thread opener([&] { gate.complete({}); });
    EXPECT_NO_THROW(allocate(right, 700 << 10));
    opener.join();
  }
}

TEST(MeshView, AThousandOpensAndClosesLeaveNothing) {
  const Mesh mesh = Mesh::open(options({2, 2}));
  const MeshBuffer stays = allocate(mesh, 64);
  const std::int64_t base = used(mesh);
  for (int round = 0; round < 1000; ++round) {
    const Mesh view = mesh.submesh(round % 2 == 0 ? mesh.row(round % 4 / 2) : mesh.column(1));
    const MeshBuffer buffer = allocate(view, 1024);
    view.queue(round % 3).enqueue_fill(buffer, {std::byte{5}});
  }
  mesh.core().drain();
  EXPECT_EQ(used(mesh), base);
}

TEST(MeshView, ClosesInAnyOrderWithWorkInFlight) {
  for (int round = 0; round < 100; ++round) {
    std::optional<Mesh> mesh = Mesh::open(options({1, 3}));
    std::optional<Mesh> view = mesh->submesh({{0, 1}, {0, 2}});
    std::optional<MeshBuffer> buffer = allocate(*view, 4096);
    std::optional<MeshBufferView> part = buffer->at(MeshRange::at({0, 1}));
    const EventSource gate;
    const Event last =
        view->queue(round % 2).enqueue_fill(*part, {std::byte{1}}, {.after = {gate.event()}});
    if (round % 3 == 0) mesh.reset();
    if (round % 4 < 2) buffer.reset();
    if (round % 5 < 3) part.reset();
    view.reset();
    mesh.reset();
    gate.complete({});
    EXPECT_NO_THROW(last.wait()) << "round " << round;
  }
}

TEST(MeshView, EventsOrderAndFailAcrossMeshesAndViews) {
  const Mesh a = Mesh::open(options({1, 2}));
  const Mesh b = Mesh::open(options({1, 3}));
  const Mesh part = b.submesh({{0, 1}, {0, 2}});
  const EventSource gate;
  std::atomic<int> before = 0;
  std::atomic<int> early = 0;
  const Event first = a.queue(1).enqueue_host([&](int) { ++before; }, {.after = {gate.event()}});
  part.queue().wait_for(first);
  const Event second = part.queue().enqueue_host([&](int) { early += before == 2 ? 0 : 1; });
  const Event third =
      b.queue(2).enqueue_host([&](int) { early += before == 2 ? 0 : 1; }, {.after = {second}});
  const Event all = Event::when_all(std::vector{first, second, third});
  EXPECT_FALSE(all.ready());
  gate.complete({});
  all.wait();
  EXPECT_EQ(early.load(), 0);

  const Event broken = part.queue().enqueue_host(
      [](int index) {
        if (index == 1) {
          throw std::runtime_error("overheated");
        }
      },
      {.label = "step"});
  const Event on_a = a.queue().enqueue_host([](int) {}, {.after = {broken}});
  for (const Event& failed : {on_a, Event::when_all(std::vector{all, on_a})}) {
    try {
      failed.wait();
      ADD_FAILURE() << "it didn't fail";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), "step: device (0,2): overheated");
    }
  }
}

/// Everything that keeps devices open, dropped one after the other in many orders.
TEST(MeshView, TheDevicesCloseWithTheLastHolderAndNotBefore) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::any> holders;
    std::weak_ptr<detail::MeshCore> watch;
    const EventSource gate;
    Event last;
    {
      const Mesh mesh = Mesh::open(options({1, 3}));
      watch = mesh.shared_core();
      const Mesh part = mesh.submesh({{0, 1}, {0, 2}});
      const auto buffer = std::make_shared<MeshBuffer>(allocate(part, 64));
      const auto work = std::make_shared<MeshWorkload>(part);
      work->add(part.range(), [](const KernelCall&) {}, {.buffer = *buffer});
      holders.emplace_back(mesh);
      holders.emplace_back(mesh.permute({1, 0}));
      holders.emplace_back(buffer);
      holders.emplace_back(buffer->slice(8, 8));
      holders.emplace_back(buffer->reserve());
      holders.emplace_back(work);
      holders.emplace_back(capture(mesh, [&] { part.queue().enqueue(*work); }));
      if (round % 3 == 0) {
        last = mesh.queue(1).enqueue_host([](int) {}, {.after = {gate.event()}});
      }
    }
    std::shuffle(holders.begin(), holders.end(), random);
    while (!holders.empty()) {
      EXPECT_FALSE(watch.expired());
      holders.pop_back();
    }
    EXPECT_EQ(watch.expired(), round % 3 != 0) << "a command in flight holds them too";
    gate.complete({});
    last.wait();
    while (!watch.expired()) {
      std::this_thread::yield();  // a callback that returns a range may still be at it
    }
  }
}

TEST(MeshView, OutlivesTheHandleOfItsParent) {
  std::optional<Mesh> mesh = Mesh::open(options({1, 2}));
  const Mesh view = mesh->submesh(mesh->column(1));
  mesh.reset();
  const MeshBuffer buffer = allocate(view, 64);
  view.queue().enqueue_fill(buffer, {std::byte{9}});
  EXPECT_EQ(read_first_bytes(view, buffer), std::vector{9});
}

}  // namespace
}  // namespace tilemesh
