#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "tilemesh/base/status.hpp"

namespace tilemesh::detail {

/// What an event's handles share: how many parts are missing, the first failure, who wants to know.
class EventState {
 public:
  explicit EventState(int parts) : remaining_(parts) {}

  bool ready() const { return done_.load(std::memory_order_acquire); }
  /// Requires ready().
  const Status& status() const { return error_; }
  void complete(const Status& status);
  void then(std::function<void(const Status&)> callback);
  /// False if the time ran out. Throws invalid_argument on a worker thread.
  bool wait_until(std::optional<std::chrono::nanoseconds> timeout);

 private:
  using Callback = std::function<void(const Status&)>;

  std::atomic<bool> done_ = false;
  std::atomic<int> remaining_;
  std::mutex mutex_;  // of all below; error_ is fixed once done_
  std::condition_variable completed_;
  int sleepers_ = 0;
  Status error_;
  Callback callback_;  // the first, since mostly there is one
  std::vector<Callback> more_callbacks_;
};

}  // namespace tilemesh::detail
