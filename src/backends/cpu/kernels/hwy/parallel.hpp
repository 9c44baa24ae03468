#pragma once

#include <cstdint>

#include <omp.h>

namespace tilemesh::cpu::highway {

/// What a thread has to have to do before opening a team is worth its microseconds.
inline constexpr double kNanosecondsPerThread = 15'000;

/// How many of the device's threads work of about so many nanoseconds deserves.
inline int threads_for(double nanoseconds, int device_threads) {
  const auto most = static_cast<int>(nanoseconds / kNanosecondsPerThread);
  return most < 1 ? 1 : most < device_threads ? most : device_threads;
}

/// Calls `body(thread, begin, end)` for parts of [0, count) on up to `threads` threads: once, on
/// the caller, if that is 1. `body` must not throw on more than one thread.
template <class Body>
void parallel_for(int threads, std::int64_t count, const Body& body) {
  if (threads <= 1 || count <= 1) {
    body(0, std::int64_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const std::int64_t team = omp_get_num_threads();
    const int thread = omp_get_thread_num();
    const std::int64_t begin = count * thread / team;
    const std::int64_t end = count * (thread + 1) / team;
    if (begin < end) body(thread, begin, end);
  }
}

}  // namespace tilemesh::cpu::highway
