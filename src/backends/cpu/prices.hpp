#pragma once

#include <cstdint>
#include <string_view>

#include "tilemesh/ops/op.hpp"
#include "tilemesh/ops/target.hpp"

namespace tilemesh::cpu {

/// What an instruction set can do, as far as layouts and prices depend on it.
struct Isa {
  int vector_floats = 1;  ///< f32 in a register: 16, 8 or 4
  bool bf16 = false;
  friend bool operator==(const Isa&, const Isa&) = default;
};
Isa isa_of(const TargetInfo& info);
/// True for processors that run a 512-bit operation as two of 256 bits.
bool splits_vectors(const TargetInfo& info);
/// The instruction set that this machine's kernels use.
Isa isa_of_this_machine();

/// Estimated seconds of kernels. Coarse: they order candidates until somebody measures.
class Prices {
 public:
  explicit Prices(const TargetInfo& info);

  /// A conv, conv_transpose or matmul of so many operations by the implementation of that name, in
  /// the layouts of the call.
  double weighted(double flops, std::string_view implementation, const OpCall& call) const;
  /// A pass over all operands of a call.
  double pass(const OpCall& call) const;
  /// Reading and writing so many bytes, as far as they fit from a cache.
  double bytes(double count) const;

 private:
  double flops_per_second_;  // of all threads of a device
  double narrow_share_;      // what kernels of half the vector width reach of the others' speed
  double bytes_per_second_;
  double cache_bytes_;
};

}  // namespace tilemesh::cpu
