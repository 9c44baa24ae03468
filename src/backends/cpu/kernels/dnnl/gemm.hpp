#pragma once

#include <cstdint>

namespace tilemesh::cpu::onednn {

/// c = a b, or c += a b, of dense row-major f32 matrices [m, k], [k, n] and [m, n]. Throws
/// kernel_failed if oneDNN can't. Uses the calling thread's OpenMP team.
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b, float* c,
          bool accumulate);

}  // namespace tilemesh::cpu::onednn
