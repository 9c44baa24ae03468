#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include <dnnl.hpp>

#include "tilemesh/ops/op.hpp"

#include "backends/cpu/kernels/dnnl/adapter.hpp"

namespace tilemesh::cpu::onednn {

/// An epilogue as oneDNN's post-ops.
struct PostOps {
  static constexpr int kNone = -1;

  struct Binary {
    int index = 0;            ///< of the post-op
    std::size_t operand = 0;  ///< of call.inputs
    dnnl::memory::desc desc;

    /// The operand's memory in the form of `desc`. `call` has the layout that it lies in, `planned`
    /// the one that `desc` was made for.
    int slot(KernelBuilder& builder, const OpCall& call, const OpCall& planned) const;
  };

  dnnl::post_ops ops;
  std::vector<Binary> binaries;
  int bias_operand = kNone;  ///< an added operand that serves as the primitive's own bias

  /// The post-ops' operands as arguments of the primitive; `call` and `planned` as for slot().
  void add_arguments(KernelBuilder& builder, const OpCall& call, const OpCall& planned,
                     std::vector<KernelBuilder::Argument>& arguments) const;
};

/// What the op says of its epilogue's operands.
struct PostOpRules {
  /// The operand as the primitive's post-op sees it; throws Refused if it can't.
  std::function<dnnl::memory::desc(const OperandType&)> describe;
  /// True if an operand that is added first can be the primitive's bias.
  std::function<bool(const OperandType&)> is_bias = [](const OperandType&) {
    return false;
  };
};

/// The one place that decides which epilogues fuse, for the Target and the kernels alike: throws
/// Refused, naming the step that doesn't fit. A chain fits when each step takes the value of the
/// one before; `x * sigmoid(a x)` and `x * hard_sigmoid(x)` are known as well. Two post-ops of one
/// algorithm must have the same numbers, since oneDNN 2.6.3 uses the first one's for both.
PostOps post_ops_for(const OpCall& call, const PostOpRules& rules);

/// True if a post-op gives a number for NaN: those that bound their value by minimum and maximum,
/// and some that rest on such. All of them raise the processor's invalid flag when they do (seen in
/// every implementation of oneDNN 2.6.3 for sse4.1, avx2 and avx512).
bool may_lose_nan(const dnnl::post_ops& post_ops);
/// The same of one algorithm; of a relu with a slope of 0.
bool may_lose_nan(dnnl::algorithm kind);

/// True if the operand's elements lie one after the other in row-major order, whatever its layout
/// says (one channel value each, blocked or not).
bool is_linear(const OperandType& operand);

/// `operand` with dims of size 1 in front, up to `rank` dims.
Shape pad_rank(const Shape& operand, int rank);

}  // namespace tilemesh::cpu::onednn
