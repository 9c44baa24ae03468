#include "backends/cpu/worker_pool.hpp"

#include <atomic>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "tilemesh/device/event.hpp"
#include "tilemesh/device/spin_wait.hpp"
#include "tilemesh/device/worker_scope.hpp"

#include "backends/cpu/machine.hpp"
#include "backends/cpu/omp_threads.hpp"

namespace tilemesh::cpu {
namespace {

class Task final : public Work {
 public:
  explicit Task(std::function<void()> function) : function_(std::move(function)) {}
  void run() override { function_(); }

 private:
  std::function<void()> function_;
};

TEST(WorkerPool, RunsOnWorkersWithTheirThreadsSet) {
  const WorkerPool pool({.workers = 1, .threads_per_worker = 3});
  const EventSource ran;
  bool on_worker = false;
  int threads = 0;
  pool.list()->schedule(std::make_shared<Task>([&] {
    on_worker = detail::on_worker_thread() && pool.is_this_thread();
    threads = omp_threads();
    ran.complete({});
  }));
  ran.event().wait();
  EXPECT_TRUE(on_worker);
  EXPECT_EQ(threads, 3);
  EXPECT_FALSE(detail::on_worker_thread());
  EXPECT_FALSE(pool.is_this_thread());
}

TEST(WorkerPool, WakesSleepersWithAndWithoutSpinning) {
  for (const auto spin : {std::chrono::nanoseconds(0), std::chrono::nanoseconds(1000000)}) {
    const WorkerPool pool({.workers = 2, .spin = spin});
    for (int i = 0; i < 200; ++i) {
      const EventSource ran;
      pool.list()->schedule(std::make_shared<Task>([&] { ran.complete({}); }));
      ran.event().wait();
    }
  }
}

TEST(WorkerPool, WorkListedWhileAnotherIsTakenWakesASleeper) {
  const WorkerPool pool({.workers = 2});
  for (int i = 0; i < 20'000; ++i) {
    const EventSource first;
    const EventSource second;
    std::atomic<bool> go = false;
    pool.list()->schedule(std::make_shared<Task>([&] {
      while (!go.load()) {
        std::this_thread::yield();
      }
      first.complete({});
    }));
    for (int pause = 0; pause < i % 200; ++pause) {
      detail::relax();
    }
    pool.list()->schedule(std::make_shared<Task>([&] {
      go.store(true);
      second.complete({});
    }));
    const bool woken = second.event().wait_for(std::chrono::seconds(20));
    go.store(true);
    first.event().wait();
    second.event().wait();
    ASSERT_TRUE(woken) << "round " << i;
  }
}

TEST(WorkerPool, WorkIsListedOnceAtATime) {
  std::promise<void> gate;
  const EventSource begun;
  std::atomic<int> runs = 0;
  {
    const WorkerPool pool({.workers = 1});
    pool.list()->schedule(std::make_shared<Task>([&] {
      begun.complete({});
      gate.get_future().wait();
    }));
    begun.event().wait();
    const auto counted = std::make_shared<Task>([&] { ++runs; });
    pool.list()->schedule(counted);
    pool.list()->schedule(counted);
    const EventSource last;
    pool.list()->schedule(std::make_shared<Task>([&] { last.complete({}); }));
    gate.set_value();
    last.event().wait();
  }
  EXPECT_EQ(runs.load(), 1);
}

TEST(WorkerPool, MayEndOnItsOwnWorker) {
  for (int round = 0; round < 50; ++round) {
    auto pool = std::make_shared<WorkerPool>(WorkerPoolOptions{.workers = 2});
    const auto list = pool->list();
    std::promise<void> handed_over;
    const EventSource ended;
    list->schedule(std::make_shared<Task>(
        [held = pool, gate = handed_over.get_future().share(), &ended]() mutable {
          gate.wait();
          held.reset();
          ended.complete({});
        }));
    pool.reset();
    handed_over.set_value();
    ended.event().wait();
  }
}

TEST(OmpThreads, AreSetForTheScopeAlone) {
  const int before = omp_threads();
  {
    const OmpThreads guard(before + 1);
    EXPECT_EQ(omp_threads(), before + 1);
    {
      const OmpThreads inner(1);
      EXPECT_EQ(omp_threads(), 1);
    }
    EXPECT_EQ(omp_threads(), before + 1);
  }
  EXPECT_EQ(omp_threads(), before);
}

TEST(Machine, HasCoresAndMemory) {
  const Machine machine = read_machine();
  EXPECT_GE(machine.cores(), 1);
  EXPECT_LE(machine.cores(), static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_GT(machine.memory_bytes, 0);
  EXPECT_GE(machine.numa_nodes, 1);
  EXPECT_FALSE(machine.name.empty());
}

TEST(CoreLease, GivesEachProcessorToOneHolderAndTakesItBack) {
  Machine machine;
  machine.processors = {1000, 1001, 1002};  // of no machine: nothing is bound here
  {
    const CoreLease two(machine, 2);
    EXPECT_EQ(two.processors(), (std::vector<unsigned>{1000, 1001}));
    const CoreLease too_many(machine, 2);
    EXPECT_TRUE(too_many.processors().empty());
    const CoreLease one(machine, 1);
    EXPECT_EQ(one.processors(), std::vector<unsigned>{1002});
  }
  const CoreLease all(machine, 3);
  EXPECT_EQ(all.processors(), machine.processors);
}

}  // namespace
}  // namespace tilemesh::cpu
