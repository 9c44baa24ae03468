#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "fixture.hpp"

namespace tilemesh {
namespace {

class QueueConformance : public DeviceConformance {};
INSTANTIATE_TEST_SUITE_P(Backends, QueueConformance, testing::ValuesIn(variants()), variant_name);

TEST_P(QueueConformance, CommandsRunInOrder) {
  const auto queue = device().create_queue();
  std::vector<int> seen;
  Event last;
  for (int i = 0; i < 200; ++i) {
    last = enqueue_host(*queue, [&seen, i] { seen.push_back(i); });
  }
  last.wait();
  ASSERT_EQ(seen.size(), 200U);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
}

TEST_P(QueueConformance, ADeviceRunsOneCommandAtATimeAcrossItsQueues) {
  std::vector<std::unique_ptr<DeviceQueue>> queues;
  std::vector<Event> events;
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  for (int q = 0; q < 3; ++q) {
    queues.push_back(device().create_queue());
    for (int i = 0; i < 50; ++i) {
      events.push_back(enqueue_host(*queues.back(), [&] {
        most = std::max(most.load(), ++running);
        std::this_thread::yield();
        --running;
      }));
    }
  }
  Event::when_all(events).wait();
  EXPECT_EQ(most.load(), 1);
}

TEST_P(QueueConformance, AQueueWaitsForAfterWhileOthersGoOn) {
  const auto waiting = device().create_queue();
  const auto free = device().create_queue();
  const EventSource gate;
  bool ran = false;
  const Event held = enqueue_host(*waiting, [&ran] { ran = true; }, {gate.event()});
  const Event behind = enqueue(*waiting, MarkCommand{});
  enqueue_host(*free, [] {}).wait();
  EXPECT_FALSE(held.ready());
  EXPECT_FALSE(behind.ready());
  EXPECT_FALSE(waiting->idle());
  gate.complete({});
  behind.wait();
  EXPECT_TRUE(ran);
  wait_until_idle(*waiting);
}

TEST_P(QueueConformance, AFailureIsNamedAndTheQueueGoesOn) {
  const auto queue = device().create_queue();
  const Event failed = enqueue_host(
      *queue, [] { throw std::runtime_error("out of luck"); }, {}, "draw \"seven\"");
  const Event next = enqueue(*queue, MarkCommand{});
  const Error error = error_of(failed);
  EXPECT_EQ(error.code(), ErrorCode::kernel_failed);
  for (const char* part : {"draw \"seven\"", "out of luck", device().info().name.c_str()}) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW(next.wait());
}

TEST_P(QueueConformance, WhatNeedsAFailedEventIsSkippedWithTheSameCause) {
  const auto queue = device().create_queue();
  const auto other = last_device().create_queue();
  bool ran = false;
  const Event failed = enqueue_host(
      *queue, [] { throw Error(ErrorCode::out_of_memory, "too little"); }, {}, "first");
  const Event skipped = enqueue_host(
      *other, [&ran] { ran = true; }, {failed}, "second");
  const Event third = enqueue(*queue, MarkCommand{}, {Event(), skipped});
  EXPECT_EQ(error_of(third).code(), ErrorCode::out_of_memory);
  EXPECT_FALSE(ran);
  EXPECT_EQ(&failed.status().error(), &skipped.status().error());
  EXPECT_EQ(&failed.status().error(), &third.status().error());
}

TEST_P(QueueConformance, ACommandLetsGoBeforeItsEventCompletes) {
  const auto queue = device().create_queue();
  for (int i = 0; i < 100; ++i) {
    auto held = std::make_shared<int>(i);
    const std::weak_ptr<int> watch = held;
    Command command{.work = HostCommand{[copy = held] {
                    }},
                    .keep_alive = std::move(held)};
    const Event done = command.done.event();
    queue->enqueue(std::move(command));
    done.wait();
    EXPECT_TRUE(watch.expired());
  }
  wait_until_idle(*queue);
}

TEST_P(QueueConformance, EventsCompleteInOrderAndBeforeTheQueueIsIdle) {
  const auto queue = device().create_queue();
  const auto other = device().create_queue();  // so that who carries out commands changes
  std::atomic<int> wrong = 0;
  std::array<Event, 4> events;
  for (int i = 0; i < 2000; ++i) {
    for (std::size_t j = 0; j < events.size(); ++j) {
      events[j] = enqueue_host(*queue, [] {});
      enqueue_host(*other, [] {});
      if (j > 0) {
        events[j].then(
            [&wrong, before = events[j - 1]](const Status&) { wrong += before.ready() ? 0 : 1; });
      }
    }
    if (i % 2 == 0) {
      events.back().wait();
      wrong += std::ranges::all_of(events, &Event::ready) ? 0 : 1;
    }
    wait_until_idle(*queue);
    wrong += std::ranges::all_of(events, &Event::ready) ? 0 : 1;
  }
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(QueueConformance, ACommandMayEnqueueTheNextWithoutEnd) {
  constexpr int kCommands = 100'000;  // more than a stack would hold
  const auto queue = device().create_queue();
  const EventSource ended;
  int runs = 0;
  std::function<void()> step = [&] {
    if (++runs < kCommands) {
      enqueue_host(*queue, step);
    } else {
      ended.complete({});
    }
  };
  enqueue_host(*queue, step);
  ended.event().wait();
  EXPECT_EQ(runs, kCommands);
  wait_until_idle(*queue);
}

TEST_P(QueueConformance, ClosingFailsWhatHasNotBegunAndWhatComesLater) {
  const auto queue = device().create_queue();
  const std::string place = device().info().name;
  const EventSource never;
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = held;
  const Event pending = enqueue_host(
      *queue, [held = std::move(held)] {}, {never.event()}, "copy");
  devices_.clear();
  const Error error = error_of(pending);
  EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  EXPECT_NE(std::string(error.what()).find("device " + place + " was closed"), std::string::npos)
      << error.what();
  EXPECT_TRUE(watch.expired());
  EXPECT_EQ(error_of(enqueue_host(*queue, [] {})).code(), ErrorCode::invalid_argument);
  EXPECT_TRUE(queue->idle());
  never.complete({});  // the lane that waited for it is gone
}

TEST_P(QueueConformance, AWaitInsideACommandThrowsInsteadOfHanging) {
  const auto queue = device().create_queue();
  const EventSource never;
  const Event done = enqueue_host(*queue, [event = never.event()] { event.wait(); });
  EXPECT_EQ(error_of(done).code(), ErrorCode::invalid_argument);
}

TEST_P(QueueConformance, ACallbackMayEnqueue) {
  const auto queue = device().create_queue();
  const EventSource gate;
  const EventSource reached;
  enqueue(*queue, MarkCommand{}, {gate.event()}).then([&](const Status& status) {
    EXPECT_TRUE(status.ok());
    enqueue_host(*queue, [&] { reached.complete({}); });
  });
  gate.complete({});
  reached.event().wait();
}

TEST_P(QueueConformance, HelpRunsAtMostOneCommandAndKeepsTheOrder) {
  const auto queue = device().create_queue();
  std::vector<int> seen;
  Event last;
  for (int i = 0; i < 100; ++i) {
    last = enqueue_host(*queue, [&seen, i] { seen.push_back(i); });
    if (i % 3 == 0) {
      queue->help();
    }
  }
  while (!last.ready()) {
    queue->help();
  }
  EXPECT_EQ(seen.size(), 100U);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_FALSE(queue->help());
}

TEST_P(QueueConformance, AQueueMayCloseBeforeItsCommandsEnd) {
  const EventSource gate;
  std::vector<Event> events;
  {
    const auto queue = device().create_queue();
    events.push_back(enqueue_host(*queue, [] {}, {gate.event()}));
    events.push_back(enqueue_host(*queue, [] {}));
  }
  gate.complete({});
  EXPECT_NO_THROW(Event::when_all(events).wait());
}

TEST_P(QueueConformance, DevicesMayCloseInAnyOrderWithWorkInFlight) {
  for (int round = 0; round < 20; ++round) {
    auto more = find_backend(GetParam().backend).open({.count = 2, .dram_bytes = 1 << 16});
    const auto first = more[0]->create_queue();
    const auto second = more[1]->create_queue();
    const Event a = enqueue_host(*first, [] { std::this_thread::yield(); });
    const Event b = enqueue_host(*second, [] {}, {a});
    more.erase(more.begin() + round % 2);
    more.clear();
    // Each has run, or failed because its device closed: no event stays open.
    for (const Event& event : {a, b}) {
      try {
        event.wait();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace tilemesh
