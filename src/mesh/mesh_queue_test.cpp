#include "tilemesh/mesh/mesh_queue.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <thread>

#include "mesh/testing.hpp"

namespace tilemesh {
namespace {

using namespace std::chrono_literals;

class MeshQueueTest : public MeshTest {
 protected:
  static const std::byte* bytes_of(const std::vector<std::uint8_t>& values) {
    return reinterpret_cast<const std::byte*>(values.data());  // NOLINT
  }
  static HostBytes borrow(const std::vector<std::uint8_t>& values) {
    return HostBytes::borrow(std::span(values), nullptr);
  }
};
INSTANTIATE_TEST_SUITE_P(Meshes, MeshQueueTest, testing::ValuesIn(mesh_cases()), mesh_case_name);

std::vector<std::uint8_t> counting(std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  return bytes;
}

TEST_P(MeshQueueTest, WritesOfShardsComeBackInPlace) {
  const MeshBuffer buffer = allocate(16);
  const auto host = counting(static_cast<std::size_t>(16 * mesh_.device_count()));
  std::vector<ShardWrite> writes;
  for (int i = 0; i < mesh_.device_count(); ++i) {
    writes.push_back({.coord = mesh_.shape().coord_of(i),
                      .host = borrow(host).from(16 * i),
                      .region = rows(1, 16)});
  }
  const Counters before = mesh_.counters();
  queue_.enqueue_write(buffer, writes);
  EXPECT_EQ(read_all(buffer), host);
  const Counters crossed = mesh_.counters() - before;
  EXPECT_EQ(crossed.host_to_device_bytes, std::ssize(host));
  EXPECT_EQ(crossed.host_to_device_transfers, mesh_.device_count());
  EXPECT_EQ(crossed.device_to_host_bytes, std::ssize(host));
  EXPECT_EQ(crossed.device_to_host_transfers, mesh_.device_count());
}

TEST_P(MeshQueueTest, AReplicatedWriteCountsItsBytesOnce) {
  const MeshBuffer buffer = allocate(40);
  const auto host = counting(40);
  const Counters before = mesh_.counters();
  queue_.enqueue_write_replicated(buffer, bytes_of(host), 40, nullptr);
  const auto all = read_all(buffer);
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i], host[i % 40]);
  }
  EXPECT_EQ((mesh_.counters() - before).host_to_device_bytes, 40);
}

TEST_P(MeshQueueTest, FillsAndCopiesAreDeviceByDevice) {
  const MeshBuffer source = allocate(30, "source");
  const MeshBuffer target = allocate(30, "target");
  queue_.enqueue_fill(source, {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}});
  queue_.enqueue_copy(source, target);
  const Counters before = mesh_.counters();
  const auto all = read_all(target);
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i], i % 30 % 4 + 1);
  }
  EXPECT_EQ((mesh_.counters() - before).host_to_device_bytes, 0);
}

TEST_P(MeshQueueTest, AWriteAtAnOffsetLeavesTheRest) {
  const MeshBuffer buffer = allocate(12);
  queue_.enqueue_fill(buffer, {std::byte{9}});
  const auto host = counting(4);
  const ShardWrite write = {.coord = mesh_.shape().coord_of(0),
                            .host = borrow(host),
                            .region = rows(1, 4),
                            .device_offset = 8};
  queue_.enqueue_write(buffer, {&write, 1});
  const auto all = read_all(buffer);
  EXPECT_EQ((std::vector<std::uint8_t>(all.begin() + 6, all.begin() + 12)),
            (std::vector<std::uint8_t>{9, 9, 0, 1, 2, 3}));
}

TEST_P(MeshQueueTest, RefusesTransfersThatDoNotFit) {
  const MeshBuffer buffer = allocate(16, "small");
  const auto host = counting(64);
  const auto refuses = [&](ShardWrite write) {
    try {
      queue_.enqueue_write(buffer, {&write, 1});
      return std::string("enqueued");
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("\"small\""), std::string::npos) << error.what();
      return std::string(to_string(error.code()));
    }
  };
  const ShardWrite good = {.coord = mesh_.shape().coord_of(0),
                           .host = borrow(host),
                           .region = rows(2, 4, 4, 8),
                           .device_offset = 4};
  EXPECT_EQ(refuses(good), "enqueued");
  auto bad = good;
  bad.coord = {99, 99};
  EXPECT_EQ(refuses(bad), "invalid_argument");
  bad = good;
  bad.host = {};
  EXPECT_EQ(refuses(bad), "invalid_argument");
  bad = good;
  bad.device_offset = 5;
  EXPECT_EQ(refuses(bad), "invalid_argument");
  bad.device_offset = -1;
  EXPECT_EQ(refuses(bad), "invalid_argument");
  bad = good;
  bad.region.rows = -1;
  EXPECT_EQ(refuses(bad), "invalid_argument");
  bad.region.rows = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(refuses(bad), "invalid_argument");
  bad = good;
  bad.region.device_pitch_bytes = 3;
  EXPECT_EQ(refuses(bad), "invalid_argument");
  bad = good;
  bad.region.host_pitch_bytes = -4;
  EXPECT_EQ(refuses(bad), "invalid_argument");
  bad.region.host_pitch_bytes = 61;  // 65 of 64 bytes
  EXPECT_EQ(refuses(bad), "invalid_argument");
  bad.region.host_pitch_bytes = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(refuses(bad), "invalid_argument");
  EXPECT_THROW(queue_.enqueue_write_replicated(buffer, bytes_of(host), 17, nullptr), Error);
  EXPECT_THROW(queue_.enqueue_write_replicated(buffer, bytes_of(host), -1, nullptr), Error);
  EXPECT_THROW(queue_.enqueue_fill(buffer, {}), Error);
  EXPECT_THROW(queue_.enqueue_fill(buffer, std::vector<std::byte>(17)), Error);
  EXPECT_THROW(queue_.enqueue_copy(buffer, allocate(17)), Error);
  EXPECT_THROW(queue_.enqueue_host(nullptr), Error);
  queue_.finish();
}

TEST_P(MeshQueueTest, TransfersOfNoShardsWaitForAfterAlone) {
  const MeshBuffer buffer = allocate(16);
  const EventSource gate;
  const Event written = queue_.enqueue_write(buffer, {}, {.after = {gate.event()}});
  EXPECT_FALSE(written.ready());
  gate.complete({});
  EXPECT_TRUE(written.ready());
  EXPECT_TRUE(queue_.enqueue_read(buffer, {}).ready());
}

TEST_P(MeshQueueTest, RecordCompletesBehindAllWorkWhateverItsOutcome) {
  EXPECT_TRUE(queue_.record().ready());
  const EventSource gate;
  std::atomic<int> runs = 0;
  const Event failed =
      queue_.enqueue_host([](int) { throw std::runtime_error("bad"); }, {.after = {gate.event()}});
  queue_.enqueue_host([&runs](int) { ++runs; });
  const Event mark = queue_.record();
  EXPECT_FALSE(mark.ready());
  EXPECT_FALSE(queue_.idle());
  gate.complete({});
  EXPECT_NO_THROW(mark.wait());
  EXPECT_EQ(runs.load(), mesh_.device_count());
  EXPECT_TRUE(failed.ready());
  EXPECT_THROW(failed.wait(), Error);
  while (!queue_.idle()) {
    std::this_thread::yield();  // the mark's event is complete, its thread is about to say so
  }
}

TEST_P(MeshQueueTest, WaitForOrdersQueuesAndForgivesFailures) {
  const EventSource gate;
  std::atomic<bool> first = false;
  const Event slow = mesh_.queue(1).enqueue_host(
      [&first](int index) {
        if (index == 0) {
          first = true;
        }
        throw std::runtime_error("bad");
      },
      {.after = {gate.event()}});
  queue_.wait_for(slow);
  const Event after = queue_.enqueue_host([&first](int index) {
    if (index == 0 && !first) {
      throw std::runtime_error("too early");
    }
  });
  EXPECT_FALSE(after.ready());
  gate.complete({});
  EXPECT_NO_THROW(after.wait());
  EXPECT_THROW(slow.wait(), Error);
}

TEST_P(MeshQueueTest, AFailureOnOneDeviceSkipsWhatNeedsItOnAll) {
  std::atomic<int> runs = 0;
  const int last = mesh_.device_count() - 1;
  const Event failed = queue_.enqueue_host([last](int index) {
    if (index == last) {
      throw Error(ErrorCode::kernel_failed, "broken");
    }
  });
  const Event next = queue_.enqueue_host([&runs](int) { ++runs; }, {.after = {failed}});
  const Event other = mesh_.queue(2).enqueue_host([&runs](int) { ++runs; }, {.after = {next}});
  EXPECT_THROW(other.wait(), Error);
  EXPECT_EQ(runs.load(), 0);
  EXPECT_EQ(&other.status().error(), &failed.status().error());
  EXPECT_NO_THROW(queue_.enqueue_host([](int) {}).wait());
}

TEST_P(MeshQueueTest, FinishTimesOutAndTheQueueStaysUsable) {
  const EventSource gate;
  queue_.enqueue_host([](int) {}, {.after = {gate.event()}});
  try {
    queue_.finish(2ms);
    FAIL() << "it didn't time out";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::timeout);
    EXPECT_NE(std::string(error.what()).find(mesh_.shape().to_string()), std::string::npos);
  }
  gate.complete({});
  EXPECT_NO_THROW(queue_.finish(1h));
  EXPECT_NO_THROW(queue_.enqueue_host([](int) {}).wait());
}

TEST_P(MeshQueueTest, AnyNumberOfQueuesOrderEachOtherByEvents) {
  constexpr int kQueues = 40;
  const auto devices = static_cast<std::size_t>(mesh_.device_count());
  std::vector<std::vector<int>> seen(devices);
  const EventSource gate;
  Event last = gate.event();
  for (int i = kQueues; i-- > 0;) {  // the first made is the last to run
    MeshQueue& queue = mesh_.queue(i);
    queue.wait_for(last);
    queue.enqueue_host(
        [&seen, i](int index) { seen[static_cast<std::size_t>(index)].push_back(i); });
    last = queue.record();
  }
  EXPECT_FALSE(last.ready());
  gate.complete({});
  last.wait();
  for (const auto& order : seen) {
    ASSERT_EQ(order.size(), static_cast<std::size_t>(kQueues));
    EXPECT_TRUE(std::is_sorted(order.rbegin(), order.rend()));
  }
}

TEST_P(MeshQueueTest, WaitLendsTheThreadAndThrowsWhatFailed) {
  std::atomic<int> runs = 0;
  queue_.wait(queue_.enqueue_host([&runs](int) { ++runs; }));
  EXPECT_EQ(runs.load(), mesh_.device_count());
  EXPECT_THROW(queue_.wait(queue_.enqueue_host([](int) { throw std::runtime_error("bad"); })),
               Error);
  const EventSource gate;  // of a stranger: to be slept for
  const Event held = queue_.enqueue_host([](int) {}, {.after = {gate.event()}});
  std::thread opener([&] { gate.complete({}); });
  queue_.wait(held);
  opener.join();
}

TEST_P(MeshQueueTest, ACommandsHoldingsAreReleasedBeforeItsEvent) {
  const MeshBuffer buffer = allocate(100);
  auto owner = std::make_shared<std::vector<std::uint8_t>>(counting(100));
  const std::weak_ptr<std::vector<std::uint8_t>> watch = owner;
  const std::byte* const host = bytes_of(*owner);
  const EventSource gate;
  const Event done = queue_.enqueue_write_replicated(buffer, host, 100, std::move(owner),
                                                     {.after = {gate.event()}});
  EXPECT_FALSE(watch.expired());
  gate.complete({});
  done.wait();
  EXPECT_TRUE(watch.expired());
}

TEST_P(MeshQueueTest, EmptyProgramsRunInlineOnOneDeviceAlone) {
  std::vector<std::shared_ptr<DeviceProgram>> programs;
  for (int i = 0; i < mesh_.device_count(); ++i) {
    programs.push_back(mesh_.device(i).prepare({}));
  }
  EXPECT_EQ(queue_.try_run_inline(programs, {}), mesh_.device_count() == 1);
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = held;
  queue_.enqueue_launch(programs, {}, {}, std::move(held)).wait();
  EXPECT_TRUE(watch.expired());
  EXPECT_THROW(queue_.enqueue_launch({}, {}, {}, nullptr), Error);
}

}  // namespace
}  // namespace tilemesh
