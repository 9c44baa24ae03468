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
/// The instruction set that this machine's kernels use.
Isa isa_of_this_machine();

/// Estimated seconds of kernels. Coarse: they order candidates until somebody measures.
class Prices {
 public:
  explicit Prices(const TargetInfo& info);

  /// A conv, conv_transpose or matmul by an implementation that reaches `efficiency` of the peak,
  /// reading and writing meanwhile.
  double compute(double flops, double efficiency, const OpCall& call) const;
  /// A pass over all operands of a call.
  double pass(const OpCall& call) const;
  /// Reading and writing so many bytes, which lie in the second-level cache if they fit.
  double bytes(double count) const;

 private:
  double flops_per_second_;  // of all threads of a device
  double bytes_per_second_;
  double cache_bytes_;
};

}  // namespace tilemesh::cpu
