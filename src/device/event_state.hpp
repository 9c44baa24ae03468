#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "tilemesh/base/status.hpp"
#include "tilemesh/device/spin_lock.hpp"

namespace tilemesh::detail {

/// What an event's handles share: how many parts are missing, the first failure, who wants to know.
class EventState {
 public:
  using Callback = std::function<void(const Status&)>;

  explicit EventState(int parts) : remaining_(parts) {}
  ~EventState();
  EventState(const EventState&) = delete;
  EventState& operator=(const EventState&) = delete;

  bool ready() const { return done_.load(std::memory_order_acquire); }
  /// Requires ready().
  const Status& status() const { return error_; }
  void complete(const Status& status);
  void then(Callback callback);
  /// False if the time ran out. Throws invalid_argument on a worker thread.
  bool wait_until(std::optional<std::chrono::nanoseconds> timeout);

 private:
  struct Listener;
  bool sleep_until(std::optional<std::chrono::steady_clock::time_point> end);

  // What completing touches lies in one cache line.
  std::atomic<bool> done_ = false;
  SpinLock lock_;  // of error_ until done_, and of the listeners
  std::atomic<int> remaining_;
  std::atomic<int> sleepers_ = 0;
  Status error_;
  Listener* first_ = nullptr;  // in the order in which they came
  Listener* last_ = nullptr;
  std::mutex sleep_mutex_;
  std::condition_variable completed_;
};

}  // namespace tilemesh::detail
