#pragma once

#include <atomic>

#include "tilemesh/device/spin_wait.hpp"

namespace tilemesh::detail {

/// A lock for what takes well under a microsecond: a mutex that meets another thread sleeps, and
/// waking costs forty. Waits as SpinWait does, so that a holder without a core gets one. Four
/// bytes, to lie in one cache line with what it guards. For std::lock_guard.
class SpinLock {
 public:
  void lock() {
    while (locked_.exchange(true, std::memory_order_acquire)) {
      SpinWait spin(std::chrono::nanoseconds::max());
      while (locked_.load(std::memory_order_relaxed)) {
        spin.step();
      }
    }
  }
  void unlock() { locked_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> locked_ = false;
};

}  // namespace tilemesh::detail
