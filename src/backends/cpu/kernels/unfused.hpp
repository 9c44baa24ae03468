#pragma once

#include <memory>

#include "backends/cpu/kernel_list.hpp"

namespace tilemesh::cpu {

/// A call with an epilogue in two passes: the op by itself, then the chain over its result. What a
/// fused kernel must agree with, and the way out for one that can't keep a NaN. The result must not
/// lie in an operand's memory. Throws as make_kernel does.
std::unique_ptr<Kernel> make_unfused(const OpCall& call, const KernelContext& context);

}  // namespace tilemesh::cpu
