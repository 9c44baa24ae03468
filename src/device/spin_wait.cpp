#include "tilemesh/device/spin_wait.hpp"

#include <thread>

namespace tilemesh::detail {

bool SpinWait::yield() {
  constexpr int kPausesBetween = 8;
  const auto now = std::chrono::steady_clock::now();
  if (end_ == std::chrono::steady_clock::time_point()) {
    end_ = now + budget_;
  }
  if (now >= end_) {
    return false;
  }
  for (int i = 0; i < kPausesBetween; ++i) {
    relax();
  }
  std::this_thread::yield();
  return true;
}

}  // namespace tilemesh::detail
