#pragma once

#include <chrono>

namespace tilemesh::detail {

/// Tells the core that this thread only waits; takes some tens of nanoseconds.
inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A spin with a budget. Now and then it offers its core to other threads, since there may be more
/// spinning threads than cores: often as long as others take it, ever more seldom while none does.
class SpinWait {
 public:
  explicit SpinWait(std::chrono::nanoseconds budget) : budget_(budget) {}
  /// One pause; false once the budget is spent.
  bool step() {
    if (--until_yield_ > 0) {
      relax();
      return true;
    }
    return yield();
  }

 private:
  static constexpr int kOften = 64;        // pauses: one or two microseconds
  static constexpr int kSeldom = 32 * 64;  // some fifty
  bool yield();

  std::chrono::nanoseconds budget_;
  std::chrono::steady_clock::time_point end_{};
  int interval_ = kOften;
  int until_yield_ = kOften;
};

}  // namespace tilemesh::detail
