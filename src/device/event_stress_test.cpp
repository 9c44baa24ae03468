#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tilemesh/device/event.hpp"
#include "tilemesh/device/spin_lock.hpp"

namespace tilemesh {
namespace {

TEST(EventStress, WaitersCallbacksAndPartsMeetFromManyThreads) {
  constexpr int kParts = 3;
  constexpr int kWaiters = 2;
  for (int round = 0; round < 300; ++round) {
    const EventSource source(kParts);
    std::atomic<int> seen = 0;
    int written = 0;  // by the last part, read by all who see the event complete
    std::atomic<int> missing = kParts;
    std::vector<std::thread> threads;
    for (int i = 0; i < kWaiters; ++i) {
      threads.emplace_back([&, event = source.event()] {
        event.then([&](const Status&) { seen += written; });
        event.wait();
        seen += written;
      });
    }
    for (int i = 0; i < kParts; ++i) {
      threads.emplace_back([&, copy = source] {
        if (--missing == 0) {
          written = 1;
        }
        copy.complete({});
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    ASSERT_EQ(seen.load(), 2 * kWaiters) << "round " << round;
  }
}

TEST(EventStress, SleepersAreWoken) {
  for (int round = 0; round < 20; ++round) {
    const EventSource source;
    std::atomic<int> woken = 0;
    std::vector<std::thread> sleepers;
    for (int i = 0; i < 4; ++i) {
      sleepers.emplace_back([&, event = source.event()] {
        event.wait();
        ++woken;
      });
    }
    EXPECT_FALSE(source.event().wait_for(std::chrono::milliseconds(1)));  // they sleep by now
    source.complete({});
    for (std::thread& sleeper : sleepers) {
      sleeper.join();
    }
    ASSERT_EQ(woken.load(), 4);
  }
}

TEST(EventStress, WhenAllOfEventsThatCompleteMeanwhile) {
  for (int round = 0; round < 300; ++round) {
    std::vector<EventSource> sources(8);
    std::vector<Event> events;
    for (const EventSource& source : sources) {
      events.push_back(source.event());
    }
    std::thread completer([&] {
      for (const EventSource& source : sources) {
        source.complete({});
      }
    });
    Event::when_all(events).wait();
    for (const Event& event : events) {
      ASSERT_TRUE(event.ready());
    }
    completer.join();
  }
}

TEST(SpinLockStress, GuardsWhatItGuards) {
  detail::SpinLock lock;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 20000; ++k) {
        const std::lock_guard guard(lock);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(count, 80000);
}

}  // namespace
}  // namespace tilemesh
