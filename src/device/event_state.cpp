#include "device/event_state.hpp"

#include "tilemesh/device/spin_wait.hpp"
#include "tilemesh/device/worker_scope.hpp"

namespace tilemesh::detail {

namespace {

/// Waking a sleeper costs it 40 us and its waker 30 us, so a wait that ends sooner mustn't sleep.
constexpr std::chrono::nanoseconds kSpin = std::chrono::microseconds(100);
/// Longer waits are as good as endless, and would overflow the clock.
constexpr std::chrono::nanoseconds kLongest = std::chrono::hours(24 * 365);

void call(const std::function<void(const Status&)>& callback, const Status& status) noexcept {
  try {
    callback(status);
  } catch (...) {
    // Nobody is there to catch it: the thread is a worker, and the command has ended.
  }
}

}  // namespace

void EventState::complete(const Status& status) {
  if (!status.ok()) {
    const std::lock_guard lock(mutex_);
    if (error_.ok()) {
      error_ = status;
    }
  }
  const int before = remaining_.fetch_sub(1, std::memory_order_acq_rel);
  TILEMESH_CHECK(before >= 1, "a part of an event completed twice");
  if (before > 1) {
    return;
  }
  Callback callback;
  std::vector<Callback> more;
  {
    const std::lock_guard lock(mutex_);
    callback.swap(callback_);
    more.swap(more_callbacks_);
    done_.store(true, std::memory_order_release);
    if (sleepers_ > 0) {
      completed_.notify_all();
    }
  }
  if (callback) {
    call(callback, error_);
  }
  for (const Callback& each : more) {
    call(each, error_);
  }
}

void EventState::then(Callback callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!ready()) {
      if (callback_) {
        more_callbacks_.push_back(std::move(callback));
      } else {
        callback_ = std::move(callback);
      }
      return;
    }
  }
  call(callback, error_);
}

bool EventState::wait_until(std::optional<std::chrono::nanoseconds> timeout) {
  if (ready()) {
    return true;
  }
  if (on_worker_thread()) {
    throw Error(ErrorCode::invalid_argument,
                "a wait on a thread that acts for a device could wait for itself: use then(), or "
                "enqueue with `after`");
  }
  const auto limit = std::min(timeout.value_or(kLongest), kLongest);
  const auto end = std::chrono::steady_clock::now() + limit;
  SpinWait spin(std::min(kSpin, limit));
  do {
    if (ready()) {
      return true;
    }
  } while (spin.step());
  std::unique_lock lock(mutex_);
  ++sleepers_;
  const auto is_ready = [this] {
    return ready();
  };
  if (timeout) {
    completed_.wait_until(lock, end, is_ready);
  } else {
    completed_.wait(lock, is_ready);
  }
  --sleepers_;
  return ready();
}

}  // namespace tilemesh::detail
