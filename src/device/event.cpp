#include "tilemesh/device/event.hpp"

#include <fmt/format.h>

#include "tilemesh/device/capture_scope.hpp"

#include "device/event_state.hpp"
#include "device/recycling_allocator.hpp"

namespace tilemesh {

namespace {

/// What when_all shares among its callbacks.
struct Join {
  Join(std::span<const Event> all, int pending)
      : events(all.begin(), all.end()), remaining(pending) {}
  void arrive() {
    if (remaining.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      source.complete(first_failure(events));
    }
  }
  static Status first_failure(std::span<const Event> events) {
    for (const Event& event : events) {
      if (Status status = event.status(); !status.ok()) {
        return status;
      }
    }
    return {};
  }

  std::vector<Event> events;
  std::atomic<int> remaining;
  EventSource source;
};

}  // namespace

bool Event::ready() const {
  return state_ == nullptr || state_->ready();
}

void Event::wait() const {
  if (state_ != nullptr) {
    state_->wait_until(std::nullopt);
    state_->status().throw_if_failed();
  }
}

bool Event::wait_for(std::chrono::nanoseconds timeout) const {
  if (state_ == nullptr) {
    return true;
  }
  if (!state_->wait_until(timeout)) {
    return false;
  }
  state_->status().throw_if_failed();
  return true;
}

Status Event::status() const {
  if (state_ == nullptr) {
    return {};
  }
  TILEMESH_CHECK(state_->ready(), "the status of an event that isn't ready");
  return state_->status();
}

void Event::then(std::function<void(const Status&)> callback) const {
  if (state_ == nullptr) {
    callback(Status());
  } else {
    state_->then(std::move(callback));
  }
}

Event Event::when_all(std::span<const Event> events) {
  int pending = 0;
  for (const Event& event : events) {
    pending += event.ready() ? 0 : 1;
  }
  if (pending == 0 && Join::first_failure(events).ok()) {
    return {};
  }
  // One more than the callbacks: it can't complete before all of them are set.
  const auto join = std::make_shared<Join>(events, static_cast<int>(events.size()) + 1);
  for (const Event& event : events) {
    event.then([join](const Status&) { join->arrive(); });
  }
  join->arrive();
  if (detail::Capture* const capture = detail::current_capture()) {
    capture->joined(join->source.event(), events);
  }
  return join->source.event();
}

EventSource::EventSource(int parts) {
  if (parts < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("an event of {} parts: at least 1 must complete it", parts));
  }
  state_ = std::allocate_shared<detail::EventState>(
      detail::RecyclingAllocator<detail::EventState>(), parts);
}

Event EventSource::event() const {
  return Event(state_);
}

void EventSource::complete(const Status& status) const {
  TILEMESH_CHECK(state_ != nullptr, "a moved-from event source completes");
  const std::shared_ptr<detail::EventState> state = state_;  // who waits may destroy this source
  state->complete(status);
}

}  // namespace tilemesh
