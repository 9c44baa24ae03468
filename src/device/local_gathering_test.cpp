#include "device/local_gathering.hpp"

#include <random>
#include <thread>

#include <gtest/gtest.h>

namespace tilemesh {
namespace {

using namespace std::chrono_literals;
using detail::LocalGathering;
using detail::LocalGroup;
using detail::Watchdog;

const std::string kFirst = "op 1 \"all_reduce\"";
const std::string kSecond = "op 2 \"all_gather\"";

class Group {
 public:
  explicit Group(std::vector<std::string> places, std::chrono::nanoseconds timeout = 1min)
      : watchdog_(
            std::make_shared<Watchdog>(std::max<std::chrono::nanoseconds>(timeout / 4, 1ms))) {
    group_->places = std::move(places);
    group_->timeout = timeout;
    group_->watchdog = watchdog_;
    group_->watched = watchdog_->list();
  }
  std::shared_ptr<LocalGathering> gather(std::string label = "") const {
    return std::make_shared<LocalGathering>(group_, std::move(label));
  }
  void close() { watchdog_.reset(); }

 private:
  std::shared_ptr<LocalGroup> group_ = std::make_shared<LocalGroup>();
  std::shared_ptr<Watchdog> watchdog_;
};

std::string failure_of(const LocalGathering& gathering, int meeting) {
  try {
    return gathering.complete(meeting) ? "complete" : "waiting";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(LocalGathering, AMeetingIsCompleteWithItsLastMember) {
  const Group group({"(0,0)", "(0,1)", "(0,2)"});
  const auto gathering = group.gather();
  gathering->arrive(1, 0, kFirst);
  gathering->arrive(0, 0, kFirst);
  const Event event = gathering->event(0, false);
  EXPECT_FALSE(gathering->complete(0));
  EXPECT_FALSE(event.ready());
  gathering->arrive(2, 0, kFirst);
  EXPECT_TRUE(gathering->complete(0));
  EXPECT_TRUE(event.ready());
  EXPECT_TRUE(gathering->event(0, false).ready());
  EXPECT_FALSE(gathering->complete(1));
  gathering->arrive(2, 1, kSecond);
  gathering->arrive(1, 1, kSecond);
  const Event next = gathering->event(1, true);
  EXPECT_FALSE(next.ready());
  gathering->arrive(0, 1, kSecond);
  EXPECT_TRUE(next.ready());
  EXPECT_TRUE(gathering->complete(0));
  EXPECT_TRUE(gathering->complete(1));
}

TEST(LocalGathering, TheFirstFailureIsKeptAndWhatWasCompleteStaysSo) {
  const Group group({"a", "b"});
  const auto gathering = group.gather("program \"p\"");
  gathering->arrive(0, 0, kFirst);
  gathering->arrive(1, 0, kFirst);
  gathering->arrive(0, 1, kSecond);
  const Event event = gathering->event(1, false);
  const Status first = Error(ErrorCode::kernel_failed, "first");
  EXPECT_EQ(gathering->fail(1, first).error().what(), std::string("first"));
  EXPECT_TRUE(event.ready());
  EXPECT_EQ(gathering->fail(0, Error(ErrorCode::timeout, "second")).error().what(),
            std::string("first"));
  EXPECT_EQ(failure_of(*gathering, 0), "complete");
  EXPECT_EQ(failure_of(*gathering, 1), "first");
  gathering->arrive(1, 1, kSecond);  // too late
  EXPECT_EQ(failure_of(*gathering, 1), "first");
  EXPECT_TRUE(gathering->event(1, false).ready());
}

TEST(LocalGathering, AStallIsNamed) {
  const Group group({"(0,0)", "(0,1)", "(1,0)", "(1,1)"}, 5ms);
  const auto gathering = group.gather("program \"p\"");
  for (int member = 0; member < 4; ++member) {
    gathering->arrive(member, 0, kFirst);
  }
  gathering->arrive(0, 1, kSecond);
  gathering->event(1, false).wait();
  EXPECT_EQ(failure_of(*gathering, 1),
            "program \"p\": devices (0,1), (1,0), (1,1) didn't come to op 2 \"all_gather\" within "
            "5ms: the first was last at op 1 \"all_reduce\"");
  try {
    gathering->complete(1);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::timeout);
  }
}

TEST(LocalGathering, OneThatNeverCameOrHasLeftIsNamedToo) {
  const Group group({"(0,0)", "(0,1)"}, 5ms);
  auto gathering = group.gather();
  gathering->arrive(0, 0, kFirst);
  gathering->event(0, false).wait();
  EXPECT_EQ(failure_of(*gathering, 0),
            "device (0,1) didn't come to op 1 \"all_reduce\" within 5ms: it hasn't met the others "
            "in this launch");
  gathering = group.gather();
  gathering->arrive(0, 0, kFirst);
  gathering->arrive(1, 0, kFirst);
  gathering->leave(1);
  gathering->arrive(0, 1, kSecond);
  gathering->event(1, false).wait();
  EXPECT_EQ(failure_of(*gathering, 1),
            "device (0,1) didn't come to op 2 \"all_gather\" within 5ms: it has ended its program");
}

TEST(LocalGathering, OfManyStallsAFewAreNamed) {
  const Group group({"a", "b", "c", "d", "e", "f", "g"}, 1ms);
  const auto gathering = group.gather();
  gathering->arrive(1, 0, kFirst);
  gathering->event(0, false).wait();
  EXPECT_EQ(failure_of(*gathering, 0),
            "devices a, c, d, e and 2 others didn't come to op 1 \"all_reduce\" within 1ms: the "
            "first hasn't met the others in this launch");
}

TEST(LocalGathering, NobodyIsTornOutOfWork) {
  const Group group({"a", "b"}, 1ms);
  const auto working = group.gather();
  const auto waiting = group.gather();
  working->arrive(0, 0, kFirst);
  waiting->arrive(0, 0, kFirst);
  const Event event = working->event(0, true);
  waiting->event(0, false).wait();  // the watchdog has looked
  EXPECT_FALSE(event.ready());
  EXPECT_EQ(failure_of(*working, 0), "waiting");
}

TEST(LocalGathering, ManyComeAndGoUnderTheWatchdog) {
  Group group({"a", "b"}, 1ms);
  for (int i = 0; i < 300; ++i) {
    std::vector<std::shared_ptr<LocalGathering>> some;
    for (int j = 0; j < 5; ++j) {
      some.push_back(group.gather());
      some.back()->arrive(0, 0, kFirst);
      some.back()->event(0, false).then([](const Status&) {});
    }
    std::swap(some[0], some[static_cast<std::size_t>(i) % 5]);
    some.erase(some.begin());
  }
  const auto last = group.gather();
  last->arrive(0, 0, kFirst);
  const Event event = last->event(0, false);
  group.close();
  last->fail(1, Error(ErrorCode::internal, "gone"));
  EXPECT_TRUE(event.ready());
}

TEST(LocalGathering, TheWatchdogMayEndOnItsOwnThread) {
  const EventSource ended;
  {
    auto group = std::make_shared<Group>(std::vector<std::string>{"a", "b"}, 1ms);
    const auto gathering = group->gather();
    gathering->arrive(0, 0, kFirst);
    gathering->event(0, false).then([group, ended](const Status&) mutable {
      group->close();
      group.reset();
      ended.complete({});
    });
  }
  // The gathering has gone with its handle: nobody is left to be told.
  auto group = std::make_shared<Group>(std::vector<std::string>{"a", "b"}, 1ms);
  const auto gathering = group->gather();
  gathering->arrive(0, 0, kFirst);
  const EventSource told;
  gathering->event(0, false).then([group, told](const Status&) {
    group->close();
    told.complete({});
  });
  group.reset();
  told.event().wait();
}

TEST(LocalGatheringStress, WhatWasWrittenBeforeIsSeenAfterwards) {
  constexpr int kMembers = 4;
  constexpr int kMeetings = 1000;
  const Group group(std::vector<std::string>(kMembers, "x"));
  const auto gathering = group.gather();
  std::vector<int> values(kMembers, 0);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int member = 0; member < kMembers; ++member) {
    threads.emplace_back([&, member] {
      const auto meet = [&](int meeting) {
        gathering->arrive(member, meeting, kFirst);
        if ((meeting + member) % 3 == 0) {
          gathering->event(meeting, false).wait();
        }
        while (!gathering->complete(meeting)) {
          std::this_thread::yield();
        }
      };
      for (int i = 0; i < kMeetings; i += 2) {
        values[static_cast<std::size_t>(member)] = i + member;
        meet(i);
        for (int other = 0; other < kMembers; ++other) {
          wrong += values[static_cast<std::size_t>(other)] == i + other ? 0 : 1;
        }
        meet(i + 1);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong.load(), 0);
}

TEST(LocalGatheringStress, AllAgreeOnWhatIsCompleteWhenOneFails) {
  constexpr int kMembers = 4;
  std::mt19937 random(1);
  const Group group(std::vector<std::string>(kMembers, "x"));
  for (int round = 0; round < 100; ++round) {
    const auto gathering = group.gather();
    const int failing = static_cast<int>(random() % 20);
    std::vector<int> reached(kMembers, 0);
    std::vector<std::thread> threads;
    for (int member = 0; member < kMembers; ++member) {
      threads.emplace_back([&, member] {
        try {
          for (int& meeting = reached[static_cast<std::size_t>(member)];; ++meeting) {
            if (member == 0 && meeting == failing) {
              gathering->fail(0, Error(ErrorCode::kernel_failed, "told to"));
              break;
            }
            gathering->arrive(member, meeting, kFirst);
            while (!gathering->complete(meeting)) {
              if (member == 1) {
                gathering->event(meeting, false).wait();
              }
              std::this_thread::yield();
            }
          }
        } catch (const Error&) {
          gathering->fail(member, Error(ErrorCode::internal, "second"));
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(reached, std::vector<int>(kMembers, failing));
  }
}

}  // namespace
}  // namespace tilemesh
