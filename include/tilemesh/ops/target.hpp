#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tilemesh/ops/op.hpp"

namespace tilemesh {

/// The machine that a program is compiled for, as data: what `tilemesh query` prints and
/// `compile --target` reads back.
struct TargetInfo {
  std::string backend = "cpu";
  std::string processor;              ///< model name
  std::vector<std::string> features;  ///< instruction sets, "avx2", "avx512f", ...
  int cores = 1;                      ///< that the process may use
  int threads_per_device = 1;
  std::int64_t l1_bytes = 0;    ///< of the memory space l1 (the CPU's L2 cache)
  std::int64_t dram_bytes = 0;  ///< of the memory space dram
  std::int64_t l1d_cache_bytes = 0, l2_cache_bytes = 0, l3_cache_bytes = 0;
  std::int64_t memory_bytes = 0;
  int numa_nodes = 1;
  friend bool operator==(const TargetInfo&, const TargetInfo&) = default;
};

/// One way to run an op: which layouts it wants and gives, and its price.
struct Candidate {
  std::string implementation;  ///< "onednn:conv:nchw16c"
  std::vector<Layout> inputs;  ///< as many as the call's
  std::vector<Layout> outputs;
  double seconds = 0;  ///< estimate or measurement of the kernel alone
};

/// What the compiler asks about a machine. Implemented beside each backend's kernels; stateless and
/// thread-safe.
class Target {
 public:
  Target() = default;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  virtual ~Target() = default;

  virtual const TargetInfo& info() const = 0;

  /// The ways to run `call`, best first; never empty (row-major reference is the last). The
  /// layouts in call.inputs are those that the values have now: an op that doesn't care follows
  /// them. `constant_inputs[i]` says that the compiler can store input i in any layout for nothing.
  virtual std::vector<Candidate> candidates(const OpCall& call,
                                            const std::vector<bool>& constant_inputs) const = 0;

  /// Estimated seconds to convert a value between two layouts.
  virtual double convert_seconds(const OperandType& from, const Layout& to) const = 0;

  /// The type that arithmetic on values of `dtype` is done in. Where it is another, a program keeps
  /// values in that type between ops.
  virtual DType arithmetic_type(DType dtype) const { return dtype; }

  /// True if `call`'s epilogue may grow by `step` and stay one kernel.
  virtual bool can_fuse(const OpCall& call, const ExpressionStep& step,
                        const OperandType* operand) const = 0;
};

/// A Target without a machine: every op row-major by its reference. For tests and for backends
/// without a compiler of their own.
const Target& reference_target();

}  // namespace tilemesh
