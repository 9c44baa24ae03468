#pragma once

#include <chrono>
#include <cstdint>

namespace tilemesh::detail {

/// Tells the core that this thread only waits.
inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A spin with a budget: pauses for about a microsecond, then offers its core to other threads
/// between short pauses, since there may be more spinning threads than cores.
class SpinWait {
 public:
  explicit SpinWait(std::chrono::nanoseconds budget) : budget_(budget) {}
  /// One step; false once the budget is spent.
  bool step() {
    if (steps_ < kPauses) {
      ++steps_;
      relax();
      return true;
    }
    return yield();
  }

 private:
  static constexpr int kPauses = 64;
  bool yield();

  std::chrono::nanoseconds budget_;
  std::chrono::steady_clock::time_point end_{};
  int steps_ = 0;
};

}  // namespace tilemesh::detail
