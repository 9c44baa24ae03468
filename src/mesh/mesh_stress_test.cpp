#include <atomic>
#include <optional>
#include <thread>

#include "mesh/testing.hpp"

namespace tilemesh {
namespace {

class MeshStress : public MeshTest {};
INSTANTIATE_TEST_SUITE_P(Meshes, MeshStress, testing::ValuesIn(mesh_cases()), mesh_case_name);

TEST_P(MeshStress, EightThreadsOnOneQueueAreSeenInOneOrderByAllDevices) {
  constexpr int kThreads = 8;
  constexpr int kEach = 100;
  const auto devices = static_cast<std::size_t>(mesh_.device_count());
  std::vector<std::vector<int>> seen(devices);
  std::atomic<int> early = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const Event mine = queue_.enqueue_host([&seen, id = t * kEach + i](int index) {
          seen[static_cast<std::size_t>(index)].push_back(id);
        });
        if (i % 10 == 9) {
          queue_.finish();
          early += mine.ready() ? 0 : 1;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  queue_.finish();
  EXPECT_EQ(early.load(), 0) << "a queue was finished before what it had been given";
  ASSERT_EQ(seen[0].size(), static_cast<std::size_t>(kThreads * kEach));
  for (const auto& order : seen) {
    EXPECT_EQ(order, seen[0]);
  }
  std::vector<int> next(kThreads, 0);
  for (const int id : seen[0]) {
    EXPECT_EQ(id % kEach, next[static_cast<std::size_t>(id / kEach)]++);
  }
}

TEST_P(MeshStress, TwoQueuesTakeTurnsByEvents) {
  constexpr int kRounds = 500;
  MeshQueue& left = mesh_.queue(0);
  MeshQueue& right = mesh_.queue(1);
  const auto devices = static_cast<std::size_t>(mesh_.device_count());
  std::vector<int> turns(devices, 0);
  std::atomic<int> wrong = 0;
  const auto take_turn = [&](int expected) {
    return [&, expected](int index) {
      int& turn = turns[static_cast<std::size_t>(index)];
      wrong += turn == expected ? 0 : 1;
      ++turn;
    };
  };
  Event last;
  for (int round = 0; round < kRounds; ++round) {
    last = left.enqueue_host(take_turn(2 * round), {.after = {last}});
    right.wait_for(last);
    last = right.enqueue_host(take_turn(2 * round + 1));
  }
  last.wait();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(turns, std::vector<int>(devices, 2 * kRounds));
}

TEST_P(MeshStress, BuffersComeAndGoWhileCommandsUseThem) {
  for (int round = 0; round < 300; ++round) {
    const auto value = static_cast<std::byte>(round);
    MeshBuffer buffer = allocate(100 << 10);  // ten at most fit: shortages happen
    MeshQueue& queue = mesh_.queue(round % 3);
    queue.enqueue_fill(buffer, {value});
    if (round % 7 == 0) {
      const auto all = read_all(buffer);  // on queue 0, so it must wait for the fill
    }
    queue.enqueue_fill(buffer, {std::byte{0xee}});
  }
  mesh_.queue(1).finish();
  mesh_.queue(2).finish();
  queue_.finish();
  EXPECT_NO_THROW(allocate(900 << 10));
}

TEST_P(MeshStress, ManyThreadsEnqueueAllocateAndWait) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto value = static_cast<std::uint8_t>(t + 1);
      for (int i = 0; i < 50; ++i) {
        const MeshBuffer buffer = allocate(1000);
        MeshQueue& queue = mesh_.queue(t % 2);
        queue.enqueue_fill(buffer, {std::byte{value}});
        std::vector<std::uint8_t> got(1000);
        const ShardRead read = {.coord = mesh_.shape().coord_of(mesh_.device_count() - 1),
                                .host = MutableHostBytes::borrow(std::span(got), nullptr)};
        queue.wait(queue.enqueue_read(buffer, {&read, 1}));
        wrong += got == std::vector<std::uint8_t>(1000, value) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(MeshStress, ClosesInAnyOrderWithWorkInFlight) {
  for (int round = 0; round < 100; ++round) {
    std::optional<Mesh> mesh = Mesh::open(GetParam().options);
    std::optional<MeshBuffer> buffer =
        MeshBuffer::allocate(*mesh, {.bytes_per_device = 4096, .label = "in flight"});
    const EventSource gate;
    Event last = mesh->queue().enqueue_fill(*buffer, {std::byte{1}});
    if (round % 2 == 0) {
      last = mesh->queue(1).enqueue_fill(*buffer, {std::byte{2}}, {.after = {gate.event()}});
    }
    // The last handle may go with a callback or a command, on a worker.
    if (round % 3 == 0) {
      last.then([held = *mesh](const Status&) {});
    }
    if (round % 5 == 0) {
      last = mesh->queue().enqueue_host([held = *mesh](int) {}, {.after = {last}});
    }
    if (round % 7 < 3) {
      buffer.reset();
    }
    mesh.reset();
    buffer.reset();
    gate.complete({});
    EXPECT_NO_THROW(last.wait()) << "round " << round;
  }
}

TEST_P(MeshStress, ASharedQueueOutlivesEveryHandle) {
  for (int round = 0; round < 20; ++round) {
    std::optional<Mesh> mesh = Mesh::open(GetParam().options);
    const std::shared_ptr<MeshQueue> queue = mesh->shared_queue(round % 3);
    EXPECT_EQ(queue.get(), &mesh->queue(round % 3));
    const int devices = mesh->device_count();
    mesh.reset();
    std::atomic<int> runs = 0;
    queue->enqueue_host([&runs](int) { ++runs; });
    queue->finish();
    EXPECT_EQ(runs.load(), devices);
  }
}

TEST_P(MeshStress, CallbacksSubmitFurtherWork) {
  constexpr int kChain = 200;
  std::atomic<int> runs = 0;
  const EventSource ended;
  std::function<void(int)> next = [&](int left) {
    queue_.enqueue_host([&runs](int) { ++runs; }).then([&, left](const Status& status) {
      if (left > 1 && status.ok()) {
        next(left - 1);
      } else {
        ended.complete(status);
      }
    });
  };
  next(kChain);
  ended.event().wait();
  EXPECT_EQ(runs.load(), kChain * mesh_.device_count());
}

TEST_P(MeshStress, InlineRunsAndCommandsOfOtherThreadsMix) {
  std::vector<std::shared_ptr<DeviceProgram>> programs;
  for (int i = 0; i < mesh_.device_count(); ++i) {
    programs.push_back(mesh_.device(i).prepare({}));
  }
  std::atomic<bool> stop = false;
  std::thread other([&] {
    while (!stop.load()) {
      mesh_.queue(1).enqueue_host([](int) {}).wait();
    }
  });
  for (int i = 0; i < 2000; ++i) {
    if (!queue_.try_run_inline(programs, {})) {
      queue_.wait(queue_.enqueue_launch(programs, {}, {}, nullptr));
    }
  }
  stop.store(true);
  other.join();
}

}  // namespace
}  // namespace tilemesh
