#pragma once

#include <optional>

#include "backends/cpu/kernels/dnnl/post_ops.hpp"

namespace tilemesh::cpu::onednn {

/// A pass of its own over a primitive's result: one operation with an operand, then the rest of a
/// chain. For primitives whose own post-ops are slow or wrong.
struct InPlacePass {
  dnnl::algorithm kind{};
  dnnl::binary::primitive_desc desc;
  PostOps::Binary operand;
  PostOps rest;

  /// Appends the pass over the slot's memory; `call` and `planned` as for PostOps::add_arguments.
  void add(KernelBuilder& builder, const OpCall& call, const OpCall& planned, int image) const;
};

/// Throws Refused or dnnl::error if oneDNN has no good implementation.
InPlacePass make_pass(dnnl::algorithm kind, PostOps::Binary operand, PostOps rest,
                      const dnnl::memory::desc& image);

/// A chain cut before its first operation with an operand; without one there is no pass.
struct SplitPostOps {
  PostOps head;
  std::optional<InPlacePass> pass;
};
SplitPostOps split_at_operand(const PostOps& post_ops, const dnnl::memory::desc& image);

}  // namespace tilemesh::cpu::onednn
