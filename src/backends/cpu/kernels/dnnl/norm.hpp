#pragma once

#include "backends/cpu/kernels/dnnl/adapter.hpp"

namespace tilemesh::cpu::onednn {

std::unique_ptr<Kernel> make_batch_normalization(const OpCall& call, const KernelContext& context);
std::unique_ptr<Kernel> make_lrn(const OpCall& call, const KernelContext& context);

}  // namespace tilemesh::cpu::onednn
