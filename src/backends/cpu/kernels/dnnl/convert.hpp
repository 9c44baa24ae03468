#pragma once

#include "backends/cpu/kernels/dnnl/adapter.hpp"

namespace tilemesh::cpu::onednn {

/// Between any two layouts that oneDNN can say, of the same element type (its bits are moved) or
/// between f32 and bf16.
std::unique_ptr<Kernel> make_convert(const OpCall& call, const KernelContext& context);

}  // namespace tilemesh::cpu::onednn
