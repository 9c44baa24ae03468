#pragma once

#include "backends/cpu/kernels/dnnl/adapter.hpp"

namespace tilemesh::cpu::onednn {

/// The resizes of images whose rule is oneDNN's: linear with half-pixel centres, nearest wherever
/// both choose the same elements.
std::unique_ptr<Kernel> make_resize(const OpCall& call, const KernelContext& context);

}  // namespace tilemesh::cpu::onednn
