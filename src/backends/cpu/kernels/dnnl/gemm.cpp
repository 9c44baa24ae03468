#include "backends/cpu/kernels/dnnl/gemm.hpp"

#include <dnnl.h>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh::cpu::onednn {

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b, float* c,
          bool accumulate) {
  const dnnl_status_t status =
      dnnl_sgemm('N', 'N', m, n, k, 1.0F, a, k, b, n, accumulate ? 1.0F : 0.0F, c, n);
  if (status != dnnl_success) [[unlikely]] {
    throw Error(ErrorCode::kernel_failed,
                fmt::format("oneDNN could not multiply [{},{}] by [{},{}]: status {}", m, k, k, n,
                            static_cast<int>(status)));
  }
}

}  // namespace tilemesh::cpu::onednn
