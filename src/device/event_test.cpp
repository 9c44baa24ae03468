#include "tilemesh/device/event.hpp"

#include <atomic>
#include <limits>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tilemesh/device/worker_scope.hpp"

namespace tilemesh {
namespace {

using namespace std::chrono_literals;

Error failure(const std::string& text) {
  return {ErrorCode::kernel_failed, text};
}

std::string text_of(const Status& status) {
  return status.ok() ? "ok" : status.error().what();
}

TEST(Event, TheDefaultIsCompleteAndOwnsNothing) {
  const Event event;
  EXPECT_TRUE(event.ready());
  EXPECT_TRUE(event.status().ok());
  EXPECT_NO_THROW(event.wait());
  EXPECT_TRUE(event.wait_for(0ns));
  bool called = false;
  event.then([&called](const Status& status) { called = status.ok(); });
  EXPECT_TRUE(called);
  EXPECT_EQ(event, Event());
}

TEST(Event, CompletesWithItsLastPartAndKeepsTheFirstFailureInTime) {
  const EventSource source(3);
  const Event event = source.event();
  source.complete(failure("first"));
  EXPECT_FALSE(event.ready());
  source.complete({});
  source.complete(failure("second"));
  ASSERT_TRUE(event.ready());
  EXPECT_EQ(text_of(event.status()), "first");
  EXPECT_THROW(event.wait(), Error);
  EXPECT_THROW((void)event.wait_for(1s), Error);
}

TEST(Event, RefusesNoPartsTooManyCompletionsAndAnEarlyStatus) {
  EXPECT_THROW(EventSource(0), Error);
  EXPECT_THROW(EventSource(-1), Error);
  const EventSource source;
  EXPECT_THROW((void)source.event().status(), Error);
  source.complete({});
  EXPECT_THROW(source.complete({}), Error);
}

TEST(Event, HandlesOfOnePointAreEqual) {
  const EventSource source;
  const EventSource other;
  EXPECT_EQ(source.event(), source.event());
  EXPECT_FALSE(source.event() == other.event());
}

TEST(Event, CallsBackOnceInOrderAndAtOnceWhenReady) {
  const EventSource source;
  const Event event = source.event();
  std::vector<int> order;
  for (int i = 0; i < 5; ++i) {
    event.then([&order, i](const Status&) { order.push_back(i); });
  }
  EXPECT_TRUE(order.empty());
  source.complete({});
  event.then([&order](const Status&) { order.push_back(5); });
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST(Event, AThrowingCallbackHurtsNobody) {
  const EventSource source;
  bool called = false;
  source.event().then([](const Status&) { throw std::runtime_error("careless"); });
  source.event().then([&called](const Status&) { called = true; });
  EXPECT_NO_THROW(source.complete({}));
  EXPECT_TRUE(called);
}

TEST(Event, ACallbackMayAddAnotherAndDropTheEvent) {
  auto source = std::make_unique<EventSource>();
  int calls = 0;
  source->event().then([&](const Status&) {
    source->event().then([&calls](const Status&) { ++calls; });
    ++calls;
  });
  const EventSource copy = *source;
  copy.complete({});
  source.reset();
  EXPECT_EQ(calls, 2);
}

TEST(Event, CallbacksOfAnEventThatNeverCompletesAreReleased) {
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = held;
  {
    const EventSource source;
    source.event().then([held](const Status&) {});
    source.event().then([held = std::move(held)](const Status&) {});
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
}

TEST(Event, WaitForReturnsFalseWhenTheTimeRunsOut) {
  const EventSource source;
  const Event event = source.event();
  EXPECT_FALSE(event.wait_for(-1s));
  EXPECT_FALSE(event.wait_for(0ns));
  EXPECT_FALSE(event.wait_for(1us));
  EXPECT_FALSE(event.wait_for(1ms));  // past the spin
  source.complete({});
  EXPECT_TRUE(event.wait_for(-1s));
}

TEST(Event, TheLongestTimeoutDoesNotOverflow) {
  const EventSource source;
  std::thread completer([&] { source.complete({}); });
  EXPECT_TRUE(source.event().wait_for(std::chrono::nanoseconds::max()));
  completer.join();
}

TEST(Event, AWaitOnAWorkerThrowsUnlessItIsReady) {
  const EventSource source;
  {
    const detail::WorkerScope outer;
    const detail::WorkerScope inner;
    EXPECT_THROW(source.event().wait(), Error);
    EXPECT_THROW((void)source.event().wait_for(1s), Error);
    source.complete({});
    EXPECT_NO_THROW(source.event().wait());
  }
  EXPECT_FALSE(detail::on_worker_thread());
}

TEST(WhenAll, OfNothingAndOfCompleteEventsIsComplete) {
  const EventSource done;
  done.complete({});
  const std::vector<Event> events = {Event(), done.event(), done.event()};
  EXPECT_TRUE(Event::when_all({}).ready());
  EXPECT_TRUE(Event::when_all(events).ready());
}

TEST(WhenAll, WaitsForAllAndFailsWithTheFirstInTheOrderGiven) {
  const EventSource a;
  const EventSource b;
  const EventSource c;
  const std::vector<Event> events = {a.event(), b.event(), c.event()};
  const Event all = Event::when_all(events);
  c.complete(failure("c"));
  b.complete(failure("b"));
  EXPECT_FALSE(all.ready());
  a.complete({});
  ASSERT_TRUE(all.ready());
  EXPECT_EQ(text_of(all.status()), "b");
  EXPECT_EQ(text_of(Event::when_all(events).status()), "b");
}

}  // namespace
}  // namespace tilemesh
