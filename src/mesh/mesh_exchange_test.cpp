#include <cstring>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "tilemesh/mesh/mesh_trace.hpp"

#include "mesh/mesh_core.hpp"
#include "mesh/testing.hpp"

namespace tilemesh {
namespace {

using namespace std::chrono_literals;

std::vector<MeshCase> exchange_cases() {
  std::vector<MeshCase> cases;
  const auto add = [&cases](const std::string& name, MeshOptions options) {
    options.dram_bytes = 1 << 20;
    options.l1_bytes = 64 << 10;
    cases.push_back({name, options});
  };
  for (const char* backend : {"null", "cpu"}) {
    for (const int count : {2, 3, 5, 7}) {
      add(fmt::format("{}_1x{}", backend, count), {.shape = {1, count}, .backend = backend});
    }
    add(fmt::format("{}_8x8", backend), {.shape = {8, 8}, .backend = backend});
  }
  add("cpu_2x2_one_worker", {.shape = {2, 2}, .workers = 1});
  add("cpu_2x2_four_workers", {.shape = {2, 2}, .workers = 4});
  return cases;
}

/// Programs with collectives on the devices of a mesh, a buffer each for source and target.
class MeshExchangeTest : public MeshTest {
 protected:
  static constexpr std::int64_t kCount = 100;  // floats
  using Programs = std::vector<std::shared_ptr<DeviceProgram>>;

  static TensorSpec spec(const Mesh& mesh, Placement placement) {
    TensorSpec spec{.shape = Shape({kCount}), .mesh = mesh.shape()};
    spec.placements.resize(static_cast<std::size_t>(mesh.shape().axes()), placement);
    return spec;
  }
  static DeviceStep all_reduce(const Mesh& mesh, int source, int target) {
    DeviceStep step;
    step.kind = DeviceStep::Kind::exchange;
    step.exchange.exchange = std::make_shared<Exchange>(
        Exchange{.from = spec(mesh, partial(ReduceOp::sum)), .to = spec(mesh, replicate())});
    step.exchange.communicator = mesh.core().communicator(mesh.view());
    step.operands = {{.base = source}, {.base = target}};
    step.name = "op 1 \"all_reduce\"";
    return step;
  }
  static DeviceStep fail() {
    DeviceStep step;
    step.kind = DeviceStep::Kind::fail;
    step.name = "op 0 \"stop\"";
    step.message = "told to";
    return step;
  }
  static Programs prepare(const Mesh& mesh, std::vector<DeviceStep> steps) {
    Programs programs;
    for (int i = 0; i < mesh.device_count(); ++i) {
      for (DeviceStep& step : steps) {
        step.exchange.member = i;
      }
      programs.push_back(mesh.device(i).prepare(steps));
    }
    return programs;
  }
  static Event launch(MeshQueue& queue, const Programs& programs, const MeshBufferView& source,
                      const MeshBufferView& target, std::vector<Event> after = {}) {
    return queue.enqueue_launch(programs, std::vector{source.address(), target.address()},
                                {.after = std::move(after), .label = "program \"p\""}, nullptr);
  }
  MeshBuffer floats(const char* label) { return allocate(kCount * 4, label); }
  /// `value(device)` in every element.
  static void fill(MeshQueue& queue, const MeshBufferView& buffer, const Mesh& mesh,
                   const std::function<float(int)>& value) {
    std::vector<ShardWrite> writes;
    for (int i = 0; i < mesh.device_count(); ++i) {
      const std::vector<float> values(kCount, value(i));
      writes.push_back(
          {.coord = mesh.shape().coord_of(i), .host = HostBytes::copy(std::span(values))});
    }
    queue.enqueue_write(buffer, writes);
  }
  /// The first and last element of every device are this.
  void expect_all(const MeshBufferView& buffer, float value) {
    const auto bytes = read_all(buffer);
    std::vector<float> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    EXPECT_EQ(values, std::vector<float>(values.size(), value));
  }
  float sum_to(int count) const { return static_cast<float>(count * (count + 1) / 2); }
};
INSTANTIATE_TEST_SUITE_P(Meshes, MeshExchangeTest, testing::ValuesIn(exchange_cases()),
                         mesh_case_name);

TEST_P(MeshExchangeTest, ACommunicatorBelongsToAView) {
  detail::MeshCore& core = mesh_.core();
  const auto all = core.communicator(mesh_.view());
  EXPECT_EQ(all, core.communicator(mesh_.view()));
  EXPECT_EQ(all->size(), mesh_.device_count());
  EXPECT_EQ(all->place(all->size() - 1),
            to_string(mesh_.shape().coord_of(mesh_.device_count() - 1)));
  const Mesh last = mesh_.submesh(mesh_.column(mesh_.shape()[1] - 1));
  const auto some = core.communicator(last.view());
  EXPECT_NE(some, all);
  EXPECT_EQ(some->size(), mesh_.shape()[0]);
  EXPECT_EQ(some->place(some->size() - 1), all->place(all->size() - 1));
  EXPECT_EQ(some->arena(0, Space::dram), last.device(0).map(Space::dram));
}

TEST_P(MeshExchangeTest, TwoQueuesWithTheirOwnProgramsInAnyOrder) {
  const MeshBuffer ones = floats("ones");
  const MeshBuffer numbers = floats("numbers");
  const MeshBuffer a = floats("a");
  const MeshBuffer b = floats("b");
  fill(queue_, ones, mesh_, [](int) { return 1.0F; });
  fill(queue_, numbers, mesh_, [](int i) { return static_cast<float>(i + 1); });
  queue_.finish();
  const DeviceStep step = all_reduce(mesh_, 0, 1);
  const Programs first = prepare(mesh_, {step, step});
  const Programs second = prepare(mesh_, {step});
  std::thread other([&] {
    for (int round = 0; round < 50; ++round) {
      launch(mesh_.queue(1), second, numbers, b);
    }
  });
  for (int round = 0; round < 50; ++round) {
    launch(queue_, first, ones, a);
  }
  other.join();
  mesh_.queue(1).finish();
  queue_.wait(queue_.record());
  expect_all(a, static_cast<float>(mesh_.device_count()));
  expect_all(b, sum_to(mesh_.device_count()));
}

TEST_P(MeshExchangeTest, OneProgramOnTwoQueuesRunsOneAfterTheOther) {
  const MeshBuffer ones = floats("ones");
  const MeshBuffer a = floats("a");
  fill(queue_, ones, mesh_, [](int) { return 1.0F; });
  queue_.finish();
  const Programs programs = prepare(mesh_, {all_reduce(mesh_, 0, 1), all_reduce(mesh_, 0, 1)});
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      Event last;
      for (int round = 0; round < 20; ++round) {
        last = launch(mesh_.queue(t % 2), programs, ones, a);
      }
      EXPECT_NO_THROW(last.wait());
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  expect_all(a, static_cast<float>(mesh_.device_count()));
}

TEST_P(MeshExchangeTest, AViewAndItsParentInTurn) {
  const MeshBuffer buffer = floats("values");
  const MeshBuffer sums = floats("sums");
  const Mesh part = mesh_.submesh({MeshCoord{0, 1}, MeshCoord{0, mesh_.shape()[1] - 1}});
  const Mesh line = mesh_.reshape({mesh_.device_count()});
  const Programs all = prepare(mesh_, {all_reduce(mesh_, 0, 1)});
  const Programs some = prepare(part, {all_reduce(part, 0, 0)});
  const Programs flat = prepare(line, {all_reduce(line, 0, 1)});
  for (int round = 0; round < 20; ++round) {
    fill(queue_, buffer, mesh_, [](int) { return 1.0F; });
    launch(part.queue(), some, buffer, buffer);
    launch(round % 2 == 0 ? mesh_.queue() : line.queue(), round % 2 == 0 ? all : flat, buffer,
           sums);
  }
  const int inside = part.device_count();
  expect_all(sums, static_cast<float>(inside * inside + mesh_.device_count() - inside));
}

TEST_P(MeshExchangeTest, OneThatThrowsFailsTheOthersAndTheMeshGoesOn) {
  const MeshBuffer buffer = floats("values");
  Programs programs = prepare(mesh_, {all_reduce(mesh_, 0, 1), all_reduce(mesh_, 0, 1)});
  const Programs good = programs;
  const int thrower = mesh_.device_count() / 2;
  std::vector<DeviceStep> steps = {all_reduce(mesh_, 0, 1), fail(), all_reduce(mesh_, 0, 1)};
  for (DeviceStep& step : steps) {
    step.exchange.member = thrower;
  }
  programs[static_cast<std::size_t>(thrower)] = mesh_.device(thrower).prepare(steps);
  for (int round = 0; round < 10; ++round) {
    fill(queue_, buffer, mesh_, [](int) { return 1.0F; });
    const Event failed = launch(queue_, programs, buffer, buffer);
    const Event behind = launch(queue_, good, buffer, buffer, {failed});
    for (const Event& event : {failed, behind}) {
      try {
        queue_.wait(event);
        FAIL() << "nothing failed";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kernel_failed);
        EXPECT_EQ(std::string(error.what()),
                  fmt::format("program \"p\": op 0 \"stop\", device {}: told to",
                              to_string(mesh_.shape().coord_of(thrower))));
      }
    }
    fill(queue_, buffer, mesh_, [](int) { return 1.0F; });
    EXPECT_NO_THROW(launch(queue_, good, buffer, buffer).wait());
    const auto count = static_cast<float>(mesh_.device_count());
    expect_all(buffer, count * count);
  }
}

TEST_P(MeshExchangeTest, TracesReplayCollectives) {
  const MeshBuffer ones = floats("ones");
  const MeshBuffer a = floats("a");
  const MeshBuffer b = floats("b");
  const Programs first = prepare(mesh_, {all_reduce(mesh_, 0, 1), all_reduce(mesh_, 1, 1)});
  const Programs second = prepare(mesh_, {all_reduce(mesh_, 0, 1)});
  Event inside;
  const MeshTrace trace = capture(mesh_, [&] {
    queue_.enqueue_fill(a, {std::byte{0xff}});
    fill(queue_, ones, mesh_, [](int) { return 1.0F; });
    launch(queue_, first, ones, a);
    inside = launch(queue_, second, a, b);
    queue_.enqueue_fill(ones, {std::byte{0}});
  });
  EXPECT_EQ(trace.meeting_count(), 3);
  for (int round = 0; round < 5; ++round) {
    queue_.enqueue_fill(b, {std::byte{0}});
    queue_.finish();
    trace.replay(round % 2).wait();
    const auto count = static_cast<float>(mesh_.device_count());
    expect_all(b, count * count * count);
  }
  EXPECT_TRUE(inside.ready());
  const MeshTrace nested = capture(mesh_, [&] { trace.replay(); });
  queue_.enqueue_fill(b, {std::byte{0}});
  nested.replay();
  const auto count = static_cast<float>(mesh_.device_count());
  expect_all(b, count * count * count);
}

TEST_P(MeshExchangeTest, ClosesWithCollectivesInFlight) {
  for (int round = 0; round < 10; ++round) {
    std::optional<Mesh> mesh = Mesh::open(GetParam().options);
    std::optional<MeshBuffer> buffer =
        MeshBuffer::allocate(*mesh, {.bytes_per_device = kCount * 4, .label = "in flight"});
    const EventSource gate;
    std::optional<Programs> programs = prepare(*mesh, {all_reduce(*mesh, 0, 0)});
    Event last;
    for (int i = 0; i < 3; ++i) {
      last = launch(mesh->queue(), *programs, *buffer, *buffer,
                    round % 2 == 0 ? std::vector{gate.event()} : std::vector<Event>());
    }
    if (round % 3 == 0) {
      last.then([held = *mesh](const Status&) {});
    }
    buffer.reset();
    programs.reset();
    mesh.reset();
    gate.complete({});
    EXPECT_NO_THROW(last.wait()) << "round " << round;
  }
}

TEST_P(MeshExchangeTest, OneThatStallsFailsTheOthersByName) {
  MeshOptions options = GetParam().options;
  options.collective_timeout = 20ms;
  const Mesh mesh = Mesh::open(options);
  const int late = mesh.device_count() - 1;
  const MeshBuffer buffer =
      MeshBuffer::allocate(mesh, {.bytes_per_device = kCount * 4, .label = "values"});
  const Programs programs = prepare(mesh, {all_reduce(mesh, 0, 0)});
  const std::string place = to_string(mesh.shape().coord_of(late));
  for (int round = 0; round < 2; ++round) {
    const EventSource gate;
    const Mesh last = mesh.submesh({mesh.shape().coord_of(late), mesh.shape().coord_of(late)});
    last.queue().wait_for(gate.event());  // so its launch doesn't begin
    const Event failed = launch(mesh.queue(), programs, buffer, buffer);
    const Event other = mesh.queue(1).enqueue_host([](int) {});
    EXPECT_NO_THROW(other.wait());
    EXPECT_FALSE(failed.wait_for(0ns));
    // Those who have failed go on: the first device takes its next command.
    const Mesh first = mesh.submesh({mesh.shape().coord_of(0), mesh.shape().coord_of(0)});
    EXPECT_NO_THROW(first.queue().enqueue_host([](int) {}).wait());
    EXPECT_FALSE(failed.ready());
    gate.complete({});
    try {
      failed.wait();
      FAIL() << "nothing failed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::timeout);
      // On a busy machine others may be late too; four are named.
      const std::string text = error.what();
      EXPECT_EQ(text.find("program \"p\": device"), 0U) << text;
      EXPECT_TRUE(text.find(place) != std::string::npos ||
                  text.find(" others") != std::string::npos)
          << text;
      EXPECT_NE(text.find(" didn't come to op 1 \"all_reduce\" within 20ms: "), std::string::npos)
          << text;
    }
    // So short a time may run out again without a stall, but not always.
    bool again = true;
    for (int attempt = 0; again && attempt < 100; ++attempt) {
      try {
        launch(mesh.queue(), programs, buffer, buffer).wait();
        again = false;
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), ErrorCode::timeout) << error.what();
      }
    }
    EXPECT_FALSE(again);
  }
}

/// The bits of the sum of odd numbers on every device, whatever their threads.
std::vector<std::uint8_t> odd_sums(const MeshOptions& options) {
  constexpr std::size_t kCount = 10'000;
  const Mesh mesh = Mesh::open(options);
  const MeshBuffer buffer = MeshBuffer::allocate(mesh, {.bytes_per_device = kCount * 4});
  std::vector<ShardWrite> writes;
  std::uint32_t word = 1;
  for (int i = 0; i < mesh.device_count(); ++i) {
    std::vector<float> values(kCount);
    for (float& value : values) {
      word = word * 1664525 + 1013904223;
      value = static_cast<float>(word) / static_cast<float>(1 + word % 1000);
    }
    writes.push_back(
        {.coord = mesh.shape().coord_of(i), .host = HostBytes::copy(std::span(values))});
  }
  mesh.queue().enqueue_write(buffer, writes);
  const auto exchange = std::make_shared<Exchange>();
  exchange->from = {.shape = Shape({kCount}),
                    .placements = {partial(ReduceOp::sum), partial(ReduceOp::sum)},
                    .mesh = mesh.shape()};
  exchange->to = exchange->from;
  exchange->to.placements = {replicate(), replicate()};
  DeviceStep step;
  step.kind = DeviceStep::Kind::exchange;
  step.operands = {{.base = 0}, {.base = 0}};
  std::vector<std::shared_ptr<DeviceProgram>> programs;
  for (int i = 0; i < mesh.device_count(); ++i) {
    step.exchange = {exchange, mesh.core().communicator(mesh.view()), i};
    programs.push_back(mesh.device(i).prepare(std::vector{step}));
  }
  mesh.queue().enqueue_launch(programs, std::vector{buffer.address()}, {}, nullptr);
  std::vector<std::uint8_t> bits(kCount * 4 * writes.size());
  std::vector<ShardRead> reads;
  for (int i = 0; i < mesh.device_count(); ++i) {
    const auto part = std::span(bits).subspan(static_cast<std::size_t>(i) * kCount * 4, kCount * 4);
    reads.push_back(
        {.coord = mesh.shape().coord_of(i), .host = MutableHostBytes::borrow(part, nullptr)});
  }
  mesh.queue().enqueue_read(buffer, reads).wait();
  return bits;
}

TEST(MeshExchange, TheSameBitsForAnyNumberOfWorkers) {
  const auto bits = odd_sums({.shape = {2, 3}, .backend = "null"});
  for (const int workers : {0, 1, 2, 3, 8}) {
    for (int round = 0; round < 5; ++round) {
      EXPECT_EQ(odd_sums({.shape = {2, 3}, .workers = workers, .dram_bytes = 1 << 20}), bits)
          << workers << " workers";
    }
  }
}

TEST(MeshExchange, OptionsThatCantBeAreRefused) {
  EXPECT_THROW(Mesh::open({.workers = -1}), Error);
  EXPECT_THROW(Mesh::open({.threads_per_device = 2, .workers = 1}), Error);
  EXPECT_THROW(Mesh::open({.collective_timeout = 0ns}), Error);
}

TEST_P(MeshExchangeTest, AnotherGroupThanTheQueuesDevicesIsABug) {
  const Mesh line = mesh_.reshape({mesh_.device_count()});
  const MeshBuffer buffer = floats("values");
  EXPECT_NO_THROW(launch(line.queue(), prepare(line, {all_reduce(line, 0, 0)}), buffer, buffer));
  Programs mixed = prepare(mesh_, {all_reduce(mesh_, 0, 0)});
  mixed[0] = prepare(line, {all_reduce(line, 0, 0)})[0];
  EXPECT_THROW(launch(queue_, mixed, buffer, buffer), Error);
  queue_.finish();
}

}  // namespace
}  // namespace tilemesh
