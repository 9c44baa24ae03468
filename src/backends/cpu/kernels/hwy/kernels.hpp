#pragma once

#include <span>

#include "backends/cpu/kernel_list.hpp"

namespace tilemesh::cpu::highway {

/// The folder's rows of the kernel lists, to be asked after oneDNN's: any size, most layouts.
std::span<const OpKernel> kernels();

/// Rows to be asked before oneDNN's: they take only calls on which they were measured to be faster.
std::span<const OpKernel> preferred_kernels();

}  // namespace tilemesh::cpu::highway
