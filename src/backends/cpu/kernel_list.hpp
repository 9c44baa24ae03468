#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "tilemesh/ops/kernel.hpp"

namespace tilemesh::cpu {

/// What a kernel may count on when it is made.
struct KernelContext {
  int threads = 1;  ///< the device's; a kernel of little work should use one
};

/// One implementation: says what it makes of a call, or why it refuses.
struct KernelEntry {
  std::string_view name;
  KernelOffer (*offer)(const OpCall& call, const KernelContext& context) = nullptr;
};

/// A row of a folder's table: an implementation of an op.
struct OpKernel {
  std::string_view op;
  KernelEntry entry;
};

/// The ordered implementations of an op, the reference last.
std::span<const KernelEntry> kernel_list(std::string_view op);

/// The first that accepts. Throws unsupported with every refusal if none does.
std::unique_ptr<Kernel> make_kernel(const OpCall& call, const KernelContext& context);

}  // namespace tilemesh::cpu
