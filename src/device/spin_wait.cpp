#include "tilemesh/device/spin_wait.hpp"

#include <algorithm>
#include <thread>

namespace tilemesh::detail {

bool SpinWait::yield() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::nanoseconds kLongest = std::chrono::hours(24 * 365);  // fits the clock
  constexpr std::chrono::microseconds kTaken(3);  // another thread has run meanwhile
  const auto now = Clock::now();
  if (end_ == Clock::time_point()) {
    end_ = now + std::min(budget_, kLongest);
  }
  if (now >= end_) {
    return false;
  }
  std::this_thread::yield();
  const bool taken = Clock::now() - now > kTaken;
  interval_ = taken ? kOften : std::min(2 * interval_, kSeldom);
  until_yield_ = interval_;
  return true;
}

}  // namespace tilemesh::detail
