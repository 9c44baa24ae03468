#include "device/event_state.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "tilemesh/device/capture_scope.hpp"
#include "tilemesh/device/spin_wait.hpp"
#include "tilemesh/device/worker_scope.hpp"

#include "device/recycling_allocator.hpp"

namespace tilemesh::detail {

namespace {

/// Waking a sleeper costs it 40 us and its waker 30 us, so a wait that ends sooner mustn't sleep.
constexpr std::chrono::nanoseconds kSpin = std::chrono::microseconds(100);
/// Longer waits are as good as endless, and would overflow the clock.
constexpr std::chrono::nanoseconds kLongest = std::chrono::hours(24 * 365);

void call(const EventState::Callback& callback, const Status& status) noexcept {
  try {
    callback(status);
  } catch (...) {
    // Nobody is there to catch it: the thread is a worker, and the command has ended.
  }
}

}  // namespace

struct EventState::Listener {
  Callback callback;
  Listener* next = nullptr;

  static Listener* make(Callback callback) {
    return new (BlockPool<sizeof(Listener)>::instance().take())
        Listener{std::move(callback), nullptr};
  }
  /// Destroys it and returns the next.
  static Listener* drop(Listener* listener) {
    Listener* const next = listener->next;
    listener->~Listener();
    BlockPool<sizeof(Listener)>::instance().give(listener);
    return next;
  }
};

EventState::~EventState() {
  for (Listener* each = first_; each != nullptr;) {
    each = Listener::drop(each);
  }
}

void EventState::complete(const Status& status) {
  if (!status.ok()) {
    const std::lock_guard guard(lock_);
    if (error_.ok()) {
      error_ = status;
    }
  }
  const int before = remaining_.fetch_sub(1, std::memory_order_acq_rel);
  TILEMESH_CHECK(before >= 1, "a part of an event completed twice");
  if (before > 1) {
    return;
  }
  Listener* listener = nullptr;
  {
    const std::lock_guard guard(lock_);
    listener = std::exchange(first_, nullptr);
    done_.store(true);  // before it looks for sleepers, who announce themselves before they look
  }
  if (sleepers_.load() > 0) {
    const std::lock_guard lock(sleep_mutex_);
    completed_.notify_all();
  }
  while (listener != nullptr) {
    call(listener->callback, error_);
    listener = Listener::drop(listener);
  }
}

void EventState::then(Callback callback) {
  Listener* const listener = Listener::make(std::move(callback));
  {
    const std::lock_guard guard(lock_);
    if (!ready()) {
      (first_ == nullptr ? first_ : last_->next) = listener;
      last_ = listener;
      return;
    }
  }
  call(listener->callback, error_);
  Listener::drop(listener);
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
  refuse_in_capture("a wait");
  std::optional<std::chrono::steady_clock::time_point> end;
  if (timeout) {
    end = std::chrono::steady_clock::now() + std::min(*timeout, kLongest);
  }
  SpinWait spin(std::min(kSpin, timeout.value_or(kSpin)));
  do {
    if (ready()) {
      return true;
    }
  } while (spin.step());
  return sleep_until(end);
}

bool EventState::sleep_until(std::optional<std::chrono::steady_clock::time_point> end) {
  std::unique_lock lock(sleep_mutex_);
  sleepers_.fetch_add(1);
  const auto is_done = [this] {
    return done_.load();
  };
  if (end) {
    completed_.wait_until(lock, *end, is_done);
  } else {
    completed_.wait(lock, is_done);
  }
  sleepers_.fetch_sub(1);
  return ready();
}

}  // namespace tilemesh::detail
