#pragma once

#include "backends/cpu/kernels/dnnl/conv.hpp"

namespace tilemesh::cpu::onednn {

std::unique_ptr<Kernel> make_matmul(const OpCall& call, const KernelContext& context);

/// What oneDNN chooses for the second operand if it is a plain matrix; throws Refused otherwise.
WeightsChoice choose_matmul_weights(const OpCall& call);

/// The implementation of a product of batches whose dims lie in the orders that the call says;
/// throws Refused if there is no fast one.
std::string name_permuted_matmul(const OpCall& call);

/// As check_conv_fusion.
void check_matmul_fusion(const OpCall& call, bool ask_library);

double matmul_flops(const OpCall& call);

}  // namespace tilemesh::cpu::onednn
