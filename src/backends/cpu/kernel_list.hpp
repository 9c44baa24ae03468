#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>

#include "tilemesh/ops/kernel.hpp"

namespace tilemesh::cpu {

/// What a kernel may count on when it is made.
struct KernelContext {
  int threads = 1;  ///< the device's; a kernel of little work should use one
  std::int64_t memory_bytes = std::numeric_limits<std::int64_t>::max();  ///< the device's
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

/// What an entry makes of a call, unless its kernel would want more scratch memory than there is or
/// than the call's operands account for: then a refusal with both figures.
KernelOffer ask(const KernelEntry& entry, const OpCall& call, const KernelContext& context);

/// The first that accepts; one that does nothing if no output has an element. Throws unsupported
/// with every refusal if none does.
std::unique_ptr<Kernel> make_kernel(const OpCall& call, const KernelContext& context);

}  // namespace tilemesh::cpu
