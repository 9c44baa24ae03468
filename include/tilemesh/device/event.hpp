#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>

#include "tilemesh/base/status.hpp"

namespace tilemesh {

namespace detail {
class EventState;
}  // namespace detail

/// A point in one or more device queues: it completes once, or fails with the first cause.
/// A handle; copies share the point. Thread-safe. The default event is complete from the start and
/// owns nothing. Waiting never blocks a worker of the mesh on itself: a wait on a worker thread
/// throws invalid_argument instead of hanging, and so does a wait in a capture for what it records.
class Event {
 public:
  Event() = default;

  bool ready() const;
  /// Blocks until it completes; throws the first cause if it failed. Spins briefly, then sleeps.
  void wait() const;
  /// False if the time ran out. Throws the first cause if it failed.
  bool wait_for(std::chrono::nanoseconds timeout) const;
  /// The outcome; requires ready().
  Status status() const;
  /// Calls `callback` once it completes, on the thread that completes it (a worker, which it must
  /// not block), or at once on the caller's thread if it has.
  void then(std::function<void(const Status&)> callback) const;

  /// Completes when all have; fails with the first failure in the order given.
  static Event when_all(std::span<const Event> events);

  friend bool operator==(const Event&, const Event&) = default;
  /// Equal for handles of one point and no others while it exists; null for the default event.
  const void* id() const { return state_.get(); }

 private:
  friend class EventSource;
  explicit Event(std::shared_ptr<detail::EventState> state) : state_(std::move(state)) {}
  std::shared_ptr<detail::EventState> state_;
};

/// The producer's side of an event that `parts` devices (or one) complete together.
/// Copyable, since each device's command holds it; every part calls complete() exactly once.
class EventSource {
 public:
  explicit EventSource(int parts = 1);
  Event event() const;
  /// One part has ended; the event completes with the last. The first failure in time is kept.
  void complete(const Status& status) const;

 private:
  std::shared_ptr<detail::EventState> state_;
};

}  // namespace tilemesh
