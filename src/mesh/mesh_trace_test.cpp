#include "tilemesh/mesh/mesh_trace.hpp"

#include <atomic>
#include <cstring>
#include <optional>
#include <thread>

#include "tilemesh/mesh/mesh_workload.hpp"

#include "mesh/mesh_core.hpp"
#include "mesh/testing.hpp"

namespace tilemesh {
namespace {

using namespace std::chrono_literals;

class MeshTraceTest : public MeshTest {
 protected:
  MeshCoord first() const { return mesh_.shape().coord_of(0); }
  MeshCoord last() const { return mesh_.shape().coord_of(mesh_.device_count() - 1); }
  /// Adds `value` to the 64-bit integers of a buffer on every device.
  static MeshWorkload add(const MeshBuffer& buffer, std::int64_t value) {
    MeshWorkload work;
    work.add(buffer.mesh().range(),
             [](const KernelCall& call) {
               for (std::int64_t& x : call.elements<std::int64_t>(0)) {
                 x += call.argument<std::int64_t>(0);
               }
             },
             {.buffer = buffer, .args = {value}});
    return work;
  }
  std::vector<std::int64_t> integers(const MeshBuffer& buffer) {
    const auto bytes = read_all(buffer);
    std::vector<std::int64_t> values(bytes.size() / 8);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  static bool refused(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
      EXPECT_NE(std::string(error.what()).find("can't be captured"), std::string::npos)
          << error.what();
      return true;
    }
    return false;
  }
};
INSTANTIATE_TEST_SUITE_P(Meshes, MeshTraceTest, testing::ValuesIn(mesh_cases()), mesh_case_name);

TEST_P(MeshTraceTest, NothingRunsBeforeTheReplayAndAThousandAreExact) {
  const MeshBuffer sum = allocate(32, "sum");
  const MeshBuffer out = allocate(32, "out");
  const MeshWorkload one = add(sum, 1);
  const MeshWorkload two = add(sum, 2);
  queue_.enqueue_fill(sum, {std::byte{0}});
  const MeshTrace trace = capture(mesh_, [&] {
    queue_.enqueue(one);
    mesh_.queue(1).enqueue(two);
    queue_.enqueue_copy(sum, out);
  });
  EXPECT_EQ(trace.command_count(), 3 * mesh_.device_count());
  EXPECT_EQ(integers(sum), std::vector<std::int64_t>(integers(sum).size(), 0));
  Event last;
  for (int i = 0; i < 1000; ++i) {
    last = trace.replay();
  }
  last.wait();
  for (const MeshBuffer* buffer : {&sum, &out}) {
    const auto values = integers(*buffer);
    EXPECT_EQ(values, std::vector<std::int64_t>(values.size(), 3000));
  }
}

TEST_P(MeshTraceTest, InputsMayBeRewrittenBetweenReplays) {
  const MeshBuffer input = allocate(8, "input");
  const MeshBuffer output = allocate(8, "output");
  const MeshWorkload work = add(output, 5);
  const MeshTrace trace = capture(mesh_, [&] {
    queue_.enqueue_copy(input, output);
    queue_.enqueue(work);
  });
  for (std::int64_t round = 0; round < 50; ++round) {
    queue_.enqueue_write_replicated(input, std::vector<std::int64_t>{round});
    trace.replay();
    const auto values = integers(output);
    ASSERT_EQ(values, std::vector<std::int64_t>(values.size(), round + 5));
  }
}

TEST_P(MeshTraceTest, HostMemoryIsReadAndWrittenAnewByEachReplay) {
  const MeshBuffer buffer = allocate(8);
  auto source = std::make_shared<std::vector<std::int64_t>>(1);
  const auto target = MutableHostBytes::allocate(8);
  const Counters before = mesh_.counters();
  const MeshTrace trace = capture(mesh_, [&] {
    queue_.enqueue_write(buffer, {{.coord = last(), .host = source}});
    queue_.enqueue_read(buffer, {{.coord = last(), .host = target}});
  });
  EXPECT_EQ((mesh_.counters() - before).host_to_device_bytes, 0);
  for (std::int64_t round = 1; round <= 10; ++round) {
    (*source)[0] = round;
    trace.replay().wait();
    EXPECT_EQ(target.elements<std::int64_t>()[0], round);
  }
  EXPECT_EQ((mesh_.counters() - before).host_to_device_bytes, 80);
  EXPECT_EQ((mesh_.counters() - before).device_to_host_transfers, 10);
}

TEST_P(MeshTraceTest, DevicesMeetWhereTheyNeedEachOther) {
  const MeshBuffer buffer = allocate(8);
  const MeshWorkload work = add(buffer, 1);
  queue_.enqueue_fill(buffer, {std::byte{0}});
  const MeshTrace trace = capture(mesh_, [&] {
    queue_.enqueue(work);
    queue_.enqueue_copy(buffer, buffer, {{.from = first(), .to = last()}});
    queue_.enqueue_copy(buffer, buffer, {{.from = last(), .to = first()}});
    queue_.enqueue(work);
  });
  EXPECT_EQ(trace.meeting_count() > 0, mesh_.device_count() > 1);
  for (int i = 0; i < 200; ++i) {
    trace.replay();
  }
  const auto values = integers(buffer);
  EXPECT_EQ(values, std::vector<std::int64_t>(values.size(), 400));
}

TEST_P(MeshTraceTest, EventsOrderWhatIsRecordedAlsoJoinedOnes) {
  std::atomic<int> before = 0;
  std::atomic<int> wrong = 0;
  const int count = mesh_.device_count();
  const auto up = [&](int) {
    ++before;
  };
  const auto check = [&](int) {
    wrong += before.load() % (2 * count) == 0 ? 0 : 1;
  };
  Event after;
  const MeshTrace trace = capture(mesh_, [&] {
    const std::vector<Event> both = {queue_.enqueue_host(up), mesh_.queue(1).enqueue_host(up)};
    mesh_.queue(2).enqueue_host(check, {.after = {Event::when_all(both)}});
    queue_.wait_for(mesh_.queue(2).record());
    after = queue_.enqueue_host([](int) {});
    EXPECT_FALSE(after.ready());
  });
  for (int i = 0; i < 100; ++i) {
    trace.replay().wait();
  }
  EXPECT_TRUE(after.ready()) << "with the first replay";
  EXPECT_EQ(before.load(), 200 * count);
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(MeshTraceTest, AnEventFromOutsideIsWaitedForByTheReplay) {
  const EventSource gate;
  std::atomic<int> runs = 0;
  const MeshTrace trace = capture(
      mesh_, [&] { queue_.enqueue_host([&runs](int) { ++runs; }, {.after = {gate.event()}}); });
  const Event replayed = trace.replay();
  EXPECT_FALSE(replayed.ready());
  gate.complete({});
  replayed.wait();
  trace.replay().wait();
  EXPECT_EQ(runs.load(), 2 * mesh_.device_count());
}

TEST_P(MeshTraceTest, WhatCannotBeCapturedThrowsAndTheScopeEndsCleanly) {
  const MeshBuffer buffer = allocate(8);
  const EventSource never;
  std::vector<std::shared_ptr<DeviceProgram>> programs;
  for (int i = 0; i < mesh_.device_count(); ++i) {
    programs.push_back(mesh_.device(i).prepare({}));
  }
  Event dropped;
  for (const std::function<void()>& call : std::vector<std::function<void()>>{
           [&] { queue_.finish(); }, [&] { queue_.finish(1s); }, [&] { queue_.wait(Event()); },
           [&] { never.event().wait(); }, [&] { (void)never.event().wait_for(1h); },
           [&] { queue_.try_run_inline(programs, {}); },
           [&] {
             (void)capture(mesh_, [] {});
           }}) {
    EXPECT_TRUE(refused([&] {
      (void)capture(mesh_, [&] {
        dropped = queue_.enqueue_fill(buffer, {std::byte{1}});
        call();
      });
    }));
    EXPECT_THROW(dropped.wait(), Error) << "it will never run, and says so";
    EXPECT_NO_THROW(queue_.finish());
    EXPECT_NO_THROW(queue_.enqueue_fill(buffer, {std::byte{2}}).wait());
  }
  EXPECT_THROW((void)capture(mesh_, [] { throw std::logic_error("the caller's own"); }),
               std::logic_error);
}

TEST_P(MeshTraceTest, ATraceWithoutReplayFailsItsEvents) {
  Event made;
  {
    const MeshTrace trace = capture(mesh_, [&] { made = queue_.enqueue_host([](int) {}); });
    EXPECT_FALSE(made.ready());
  }
  EXPECT_THROW(made.wait(), Error);
}

TEST_P(MeshTraceTest, ItsBuffersStayReservedWhileItLives) {
  const std::int64_t before = used_bytes();
  {
    std::optional<MeshBuffer> work = allocate(100 << 10, "traced");
    const std::int64_t offset = work->address().offset;
    const MeshTrace trace = capture(mesh_, [&] { queue_.enqueue_fill(*work, {std::byte{0xaa}}); });
    work.reset();
    mesh_.core().drain();
    EXPECT_GE(used_bytes(), before + (100 << 10));
    std::vector<MeshBuffer> others;
    try {
      while (true) {
        others.push_back(allocate(50 << 10));
        queue_.enqueue_fill(others.back(), {std::byte{1}});
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    }
    EXPECT_GE(std::ssize(others), 10);
    trace.replay();
    for (const MeshBuffer& other : others) {
      EXPECT_TRUE(other.address().offset + (50 << 10) <= offset ||
                  other.address().offset >= offset + (100 << 10));
      const auto bytes = read_all(other);
      EXPECT_EQ(bytes, std::vector<std::uint8_t>(bytes.size(), 1));
    }
  }
  mesh_.core().drain();
  EXPECT_EQ(used_bytes(), before);
}

TEST_P(MeshTraceTest, ABufferFreedWithinTheScopeStaysReservedToo) {
  const std::int64_t before = used_bytes();
  {
    const MeshTrace trace = capture(mesh_, [&] {
      const MeshBuffer temporary = allocate(1000);
      queue_.enqueue_fill(temporary, {std::byte{1}});
    });
    mesh_.core().drain();
    EXPECT_GE(used_bytes(), before + 1000);
    trace.replay().wait();
  }
  mesh_.core().drain();
  EXPECT_EQ(used_bytes(), before);
}

TEST_P(MeshTraceTest, AFailureNamesItsCommandAndTheTraceStaysUsable) {
  std::atomic<bool> fail = true;
  std::atomic<int> runs = 0;
  const int last_device = mesh_.device_count() - 1;
  const MeshTrace trace = capture(mesh_, [&] {
    queue_.enqueue_host(
        [&](int index) {
          if (index == last_device && fail.load()) {
            throw std::runtime_error("overheated");
          }
        },
        {.label = "step"});
    queue_.enqueue_host([&](int index) { runs += index == last_device ? 1 : 0; });
  });
  try {
    trace.replay().wait();
    FAIL() << "it didn't fail";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kernel_failed);
    EXPECT_EQ(std::string(error.what()),
              "replay: step: device " + to_string(last()) + ": overheated");
  }
  EXPECT_EQ(runs.load(), 0);
  fail.store(false);
  EXPECT_NO_THROW(trace.replay().wait());
  EXPECT_EQ(runs.load(), 1);
}

TEST_P(MeshTraceTest, OtherThreadsAndOtherMeshesRunAsEver) {
  const Mesh other = Mesh::open(GetParam().options);
  std::atomic<int> runs = 0;
  const MeshTrace trace = capture(mesh_, [&] {
    std::thread([&] { queue_.enqueue_host([&runs](int) { ++runs; }).wait(); }).join();
    const Event there = other.queue().enqueue_host([&runs](int) { ++runs; });
    queue_.enqueue_host([&runs](int) { runs += 100; }, {.after = {there}});
  });
  other.queue().finish();
  EXPECT_EQ(runs.load(), 2 * mesh_.device_count());
  trace.replay().wait();
  EXPECT_EQ(runs.load(), 102 * mesh_.device_count());
}

TEST_P(MeshTraceTest, ATraceMayOutliveItsMeshAndGoWhileItRuns) {
  std::atomic<int> runs = 0;
  Event last;
  {
    std::optional<Mesh> mesh = Mesh::open(GetParam().options);
    const MeshTrace trace =
        capture(*mesh, [&] { mesh->queue().enqueue_host([&runs](int) { ++runs; }); });
    mesh.reset();
    for (int i = 0; i < 20; ++i) {
      last = trace.replay();
    }
  }
  last.wait();
  EXPECT_EQ(runs.load(), 20 * mesh_.device_count());
}

TEST_P(MeshTraceTest, ATraceOfTraces) {
  const MeshBuffer buffer = allocate(8);
  const MeshWorkload work = add(buffer, 1);
  queue_.enqueue_fill(buffer, {std::byte{0}});
  const MeshTrace inner = capture(mesh_, [&] { queue_.enqueue(work); });
  const MeshTrace outer = capture(mesh_, [&] {
    inner.replay();
    inner.replay();
  });
  outer.replay();
  outer.replay();
  const auto values = integers(buffer);
  EXPECT_EQ(values, std::vector<std::int64_t>(values.size(), 4));
}

TEST_P(MeshTraceTest, ATraceOfTracesCountsWhatCrossesWhenItDoes) {
  const MeshBuffer buffer = allocate(8);
  const HostBytes source = std::vector<std::int64_t>{7};
  const Counters before = mesh_.counters();
  const MeshTrace inner =
      capture(mesh_, [&] { queue_.enqueue_write(buffer, {{.coord = last(), .host = source}}); });
  const MeshTrace outer = capture(mesh_, [&] {
    inner.replay();
    inner.replay();
  });
  EXPECT_EQ((mesh_.counters() - before).host_to_device_bytes, 0) << "nothing has crossed";
  outer.replay().wait();
  EXPECT_EQ((mesh_.counters() - before).host_to_device_bytes, 16);
  EXPECT_EQ((mesh_.counters() - before).host_to_device_transfers, 2);
  EXPECT_EQ(integers(buffer).back(), 7);
}

TEST_P(MeshTraceTest, ATraceOfNothingButAWaitWaits) {
  const EventSource gate;
  Event behind;
  const MeshTrace trace = capture(mesh_, [&] {
    queue_.wait_for(gate.event());
    behind = queue_.record();
  });
  const Event replayed = trace.replay();
  EXPECT_FALSE(replayed.ready());
  EXPECT_FALSE(behind.ready());
  gate.complete(Error(ErrorCode::kernel_failed, "a failure that a wait forgives"));
  EXPECT_NO_THROW(replayed.wait());
  EXPECT_NO_THROW(behind.wait());
}

TEST_P(MeshTraceTest, AShortageWithinTheScopeIsAShortageAndDrainsWhatRuns) {
  MeshBuffer old = allocate(600 << 10, "old");
  const EventSource gate;
  queue_.enqueue_host([](int) {}, {.after = {gate.event()}});
  queue_.enqueue_fill(old, {std::byte{1}});
  old.deallocate();
  std::thread opener;
  std::optional<MeshBuffer> kept;
  const MeshTrace trace = capture(mesh_, [&] {
    opener = std::thread([&] { gate.complete({}); });
    kept = allocate(600 << 10, "kept");  // waits for the fill, and is no wait of the capture
    try {
      allocate(600 << 10, "too much");
      ADD_FAILURE() << "it fitted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_memory) << error.what();
    }
    queue_.enqueue_fill(*kept, {std::byte{2}});
  });
  opener.join();
  trace.replay();
  EXPECT_EQ(read_all(*kept)[0], 2);
}

TEST_P(MeshTraceTest, AnEmptyTraceReplays) {
  const MeshTrace trace = capture(mesh_, [] {});
  EXPECT_EQ(trace.command_count(), 0);
  EXPECT_EQ(trace.meeting_count(), 0);
  EXPECT_TRUE(trace.replay().ready());
}

TEST_P(MeshTraceTest, ReplaysFromManyThreadsAreEachWhole) {
  const MeshBuffer buffer = allocate(8);
  const MeshWorkload work = add(buffer, 1);
  queue_.enqueue_fill(buffer, {std::byte{0}});
  const MeshTrace trace = capture(mesh_, [&] {
    queue_.enqueue(work);
    queue_.enqueue(work);
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&trace, this] {
      for (int i = 0; i < 50; ++i) {
        trace.replay();
      }
      queue_.finish();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const auto values = integers(buffer);
  EXPECT_EQ(values, std::vector<std::int64_t>(values.size(), 800));
}

}  // namespace
}  // namespace tilemesh
