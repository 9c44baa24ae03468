#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tilemesh/ops/op.hpp"

namespace tilemesh {

/// One op prepared for fixed types on one device of a backend whose kernels run on host-addressable
/// memory. Owned by one device program; run by one thread at a time; run() allocates nothing that
/// it can avoid and throws Error(kernel_failed) only for what data can cause.
class Kernel {
 public:
  Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  virtual ~Kernel() = default;

  /// `operands`: the inputs' addresses, then the outputs'; null for absent ones. An output may be
  /// the same address as an input only if `in_place` said so when prepared. `scratch` has
  /// scratch_bytes(), 64-byte aligned.
  virtual void run(std::byte* const* operands, std::byte* scratch) = 0;
  virtual std::int64_t scratch_bytes() const { return 0; }
  /// Threads that run() uses: 1 lets any thread run it at no cost; 0: the device's.
  virtual int threads() const { return 0; }
  /// The implementation's name, for `inspect` and traces: "onednn:jit:avx512", "highway:map".
  virtual std::string_view name() const = 0;
};

/// What an entry of a kernel list says to a call: a kernel, or the reason why not.
struct KernelOffer {
  std::unique_ptr<Kernel> kernel;
  std::string refusal;
};

}  // namespace tilemesh
