#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "backends/cpu/kernel_list.hpp"

namespace tilemesh::cpu::onednn {

/// The folder's rows of the kernel lists.
std::span<const OpKernel> kernels();

/// f32 in a vector register of the instruction set that oneDNN uses here, and whether it has bf16.
struct LibraryIsa {
  int vector_floats = 4;
  bool bf16 = false;
  /// The widest block of channels that it has kernels for.
  int block() const { return std::max(8, vector_floats); }
};
LibraryIsa library_isa();

/// Multiplications and additions of a conv, conv_transpose or matmul; 0 for other ops.
double flops_of(const OpCall& call);

/// A constant operand in the layout that its primitive likes best.
struct ConstantChoice {
  std::size_t input = 0;
  Layout layout;
  std::string implementation;
};
/// What oneDNN wants of the weights of a conv, conv_transpose or matmul whose other operands lie as
/// the call says; nullopt if it has nothing good for that. Asks the library: this machine alone.
std::optional<ConstantChoice> choose_constant(const OpCall& call, int device_threads);

/// The implementation of a matmul whose operands' dims lie in the orders that the call says;
/// nullopt if there is no fast one. Asks the library.
std::optional<std::string> choose_permuted_matmul(const OpCall& call);

/// Why the epilogue of `call` can't be fused; "" if it can, in whatever layout. Without
/// `ask_library` the answer comes from the rules alone, for machines other than this one.
std::string why_not_fused(const OpCall& call, bool ask_library);

}  // namespace tilemesh::cpu::onednn
