#pragma once

#include "backends/cpu/kernel_list.hpp"

/// What this folder makes of the ops' calls, or why not: the functions behind its table.
namespace tilemesh::cpu::highway {

/// Ops of one scalar function: add, relu, sigmoid, ...
KernelOffer offer_scalar(const OpCall& call, const KernelContext& context);
KernelOffer offer_map(const OpCall& call, const KernelContext& context);
/// Comparisons, logic, is_nan.
KernelOffer offer_test(const OpCall& call, const KernelContext& context);
KernelOffer offer_where(const OpCall& call, const KernelContext& context);
KernelOffer offer_cast(const OpCall& call, const KernelContext& context);

/// Empty, or why a call's operands are outside of what this folder reads: opaque layouts, or an
/// epilogue.
std::string why_not(const OpCall& call);

}  // namespace tilemesh::cpu::highway
