#pragma once

#include <omp.h>
#include <xmmintrin.h>

namespace tilemesh::cpu {

/// The processor's sticky flag of invalid operations, one a thread. Minimum, maximum, comparison
/// and conversion raise it when they meet NaN, and so does whatever makes a NaN of other numbers
/// (SSE and AVX alike, quiet NaNs included): after code that bounds its values it says whether a
/// NaN may have got lost, for the price of reading a register.

/// Whether the calling thread's flag is raised; lowers it.
inline bool take_invalid_flag() {
  constexpr unsigned kInvalid = 1;
  const unsigned state = _mm_getcsr();
  if ((state & kInvalid) == 0) [[likely]] {
    return false;
  }
  _mm_setcsr(state & ~kInvalid);
  return true;
}

/// The same for the calling thread's team of so many.
inline bool take_invalid_flags(int threads) {
  if (threads == 1) {
    return take_invalid_flag();
  }
  int raised = 0;
#pragma omp parallel num_threads(threads) reduction(+ : raised)
  raised += take_invalid_flag() ? 1 : 0;
  return raised > 0;
}

}  // namespace tilemesh::cpu
