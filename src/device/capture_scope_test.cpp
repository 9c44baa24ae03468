#include "tilemesh/device/capture_scope.hpp"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh::detail {
namespace {

struct Recorder final : Capture {
  void joined(const Event& all, std::span<const Event> events) override {
    last = all;
    count += static_cast<int>(events.size());
  }
  Event last;
  int count = 0;
};

TEST(CaptureScope, HoldsForItsThreadAndNests) {
  Recorder outer;
  EXPECT_EQ(current_capture(), nullptr);
  EXPECT_NO_THROW(refuse_in_capture("anything"));
  {
    const CaptureScope scope(&outer);
    EXPECT_EQ(current_capture(), &outer);
    {
      const CaptureScope none(nullptr);
      EXPECT_EQ(current_capture(), nullptr);
    }
    EXPECT_EQ(current_capture(), &outer);
    std::thread([] { EXPECT_EQ(current_capture(), nullptr); }).join();
    try {
      refuse_in_capture("finish()");
      FAIL() << "not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_EQ(std::string(error.what()).find("finish() can't be captured"), 0U) << error.what();
    }
  }
  EXPECT_EQ(current_capture(), nullptr);
}

TEST(CaptureScope, AWaitForWhatIsNotReadyThrows) {
  Recorder recorder;
  const EventSource source;
  const CaptureScope scope(&recorder);
  EXPECT_THROW(source.event().wait(), Error);
  EXPECT_THROW((void)source.event().wait_for(std::chrono::hours(1)), Error);
  source.complete({});
  EXPECT_NO_THROW(source.event().wait());
  EXPECT_NO_THROW(Event().wait());
}

TEST(CaptureScope, TheCaptureHearsOfJoins) {
  Recorder recorder;
  const EventSource a;
  const EventSource b;
  const std::vector<Event> events = {a.event(), b.event()};
  (void)Event::when_all(events);
  EXPECT_EQ(recorder.count, 0);
  const CaptureScope scope(&recorder);
  const Event all = Event::when_all(events);
  EXPECT_EQ(recorder.count, 2);
  EXPECT_EQ(recorder.last, all);
  EXPECT_EQ(recorder.last.id(), all.id());
  EXPECT_NE(all.id(), nullptr);
  EXPECT_EQ(Event().id(), nullptr);
  a.complete({});
  b.complete({});
  (void)Event::when_all(events);
  EXPECT_EQ(recorder.count, 2) << "what is complete needs no order";
}

}  // namespace
}  // namespace tilemesh::detail
