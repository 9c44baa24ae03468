#pragma once

#include "backends/cpu/kernel_list.hpp"

namespace tilemesh::cpu {

/// gelu(a @ b [+ bias]) in f32 on one thread: oneDNN's product of some rows at a time, then our
/// gelu over them while they are in the second-level cache, which takes half of what oneDNN's own
/// costs as an epilogue.
KernelOffer offer_matmul_gelu(const OpCall& call, const KernelContext& context);

}  // namespace tilemesh::cpu
