#pragma once

#include <string>

#include "backends/cpu/kernel_list.hpp"

/// What this folder makes of the ops' calls, or why not: the functions behind its table.
namespace tilemesh::cpu::highway {

/// Ops of one scalar function: add, relu, sigmoid, ...
KernelOffer offer_scalar(const OpCall& call, const KernelContext& context);
KernelOffer offer_map(const OpCall& call, const KernelContext& context);
/// The call's epilogue alone: run after a kernel of the op itself, with the same operands, it
/// applies the chain to the output in place.
KernelOffer offer_epilogue(const OpCall& call, const KernelContext& context);
/// Comparisons, logic, is_nan.
KernelOffer offer_test(const OpCall& call, const KernelContext& context);
KernelOffer offer_where(const OpCall& call, const KernelContext& context);
KernelOffer offer_cast(const OpCall& call, const KernelContext& context);

/// Movement: copies between strided places.
KernelOffer offer_transpose(const OpCall& call, const KernelContext& context);
KernelOffer offer_convert(const OpCall& call, const KernelContext& context);
/// The conversions at which oneDNN's reorders are slower: without a change of dtype and, but for
/// small tensors, without padding.
KernelOffer offer_plain_convert(const OpCall& call, const KernelContext& context);
KernelOffer offer_reshape(const OpCall& call, const KernelContext& context);
KernelOffer offer_concat(const OpCall& call, const KernelContext& context);
KernelOffer offer_split(const OpCall& call, const KernelContext& context);
KernelOffer offer_slice(const OpCall& call, const KernelContext& context);
KernelOffer offer_expand(const OpCall& call, const KernelContext& context);
KernelOffer offer_tile(const OpCall& call, const KernelContext& context);
KernelOffer offer_pad(const OpCall& call, const KernelContext& context);
KernelOffer offer_depth_to_space(const OpCall& call, const KernelContext& context);
KernelOffer offer_space_to_depth(const OpCall& call, const KernelContext& context);
/// Rows picked by indices.
KernelOffer offer_gather(const OpCall& call, const KernelContext& context);

KernelOffer offer_lstm(const OpCall& call, const KernelContext& context);
KernelOffer offer_gru(const OpCall& call, const KernelContext& context);

/// reduce_*, global pools.
KernelOffer offer_reduce(const OpCall& call, const KernelContext& context);
/// arg_max, arg_min
KernelOffer offer_arg(const OpCall& call, const KernelContext& context);
/// softmax, log_softmax
KernelOffer offer_softmax(const OpCall& call, const KernelContext& context);
KernelOffer offer_layer_normalization(const OpCall& call, const KernelContext& context);
KernelOffer offer_instance_normalization(const OpCall& call, const KernelContext& context);

KernelOffer offer_resize(const OpCall& call, const KernelContext& context);

/// Convolutions along one dim of one channel: a window is a run of the input, so that the whole is
/// a product of two matrices without copying patches.
KernelOffer offer_conv_windows(const OpCall& call, const KernelContext& context);

/// Linear quantization, in any layout.
KernelOffer offer_quantize(const OpCall& call, const KernelContext& context);
KernelOffer offer_dequantize(const OpCall& call, const KernelContext& context);
KernelOffer offer_requantize(const OpCall& call, const KernelContext& context);
KernelOffer offer_quantized_add(const OpCall& call, const KernelContext& context);
KernelOffer offer_quantized_mul(const OpCall& call, const KernelContext& context);
/// Products of 8-bit integers, exact on every processor: differences from zero points in 16 bits.
KernelOffer offer_matmul_integer(const OpCall& call, const KernelContext& context);
KernelOffer offer_conv_integer(const OpCall& call, const KernelContext& context);

/// Any op on f16 or bf16 whose list has a kernel of f32, with conversions around that.
KernelOffer offer_via_f32(const OpCall& call, const KernelContext& context);

/// Empty, or why a call's operands are outside of what this folder reads: opaque layouts, or an
/// epilogue.
std::string why_not(const OpCall& call);

}  // namespace tilemesh::cpu::highway
