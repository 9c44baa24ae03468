#pragma once

#include "backends/cpu/kernel_list.hpp"

namespace tilemesh::cpu {

/// Every op in every layout that isn't opaque, plain and slow: the last entry of every list.
KernelOffer offer_reference(const OpCall& call, const KernelContext& context);

}  // namespace tilemesh::cpu
