#pragma once

#include <optional>
#include <string>

#include "backends/cpu/kernels/dnnl/adapter.hpp"
#include "backends/cpu/kernels/dnnl/post_ops.hpp"

namespace tilemesh::cpu::onednn {

/// The numbers of a convolution's window, one per spatial dim, in oneDNN's terms (a dilation of 0
/// is none).
struct Window {
  dnnl::memory::dims kernel;
  dnnl::memory::dims strides;
  dnnl::memory::dims dilations;
  dnnl::memory::dims pads_begin;
  dnnl::memory::dims pads_end;
};
/// Of canonical attributes.
Window window_of(const Attributes& attributes, const dnnl::memory::dims& kernel);

/// Post-op rules of ops with outputs [N, C, spatial...]: one number, one per channel, or all.
PostOpRules channel_rules(const OpCall& call);

/// The same call in layouts that always have a fast implementation: the image, and operands of the
/// output's size, channels-last.
OpCall in_fast_layouts(const OpCall& call);

/// The same call with each layout under the name that oneDNN knows for its memory: it compares the
/// strides of dims of size 1 as well.
OpCall with_usual_images(const OpCall& call);
/// Gives both images one layout if that changes no byte.
void align_images(OperandType& source, OperandType& target);

/// The descriptor of an operand of `call` by the name that `planned` has for its layout if the
/// memory is the same, else by its own.
dnnl::memory::desc describe_as(const OperandType& operand, const OperandType& planned);

/// Bias of [M] as the primitive wants it: the call's own, or an operand of the epilogue; the zero
/// descriptor if there is none.
struct Bias {
  dnnl::memory::desc desc;
  std::size_t operand = 0;
  bool present() const { return desc.data.ndims > 0; }
};
Bias bias_of(const OpCall& call, const PostOps& post_ops);

std::unique_ptr<Kernel> make_conv(const OpCall& call, const KernelContext& context);
std::unique_ptr<Kernel> make_conv_transpose(const OpCall& call, const KernelContext& context);

/// What oneDNN chooses for the weights when the other operands' layouts are those of the call.
struct WeightsChoice {
  Layout layout;
  std::string implementation;
};
/// Each throws Refused or dnnl::error when there is no good implementation, and Refused when the
/// layout can't be said.
WeightsChoice choose_conv_weights(const OpCall& call);
WeightsChoice choose_conv_transpose_weights(const OpCall& call);

/// Throws Refused or dnnl::error if no primitive takes the epilogue in any layout; asks the library
/// only if told.
void check_conv_fusion(const OpCall& call, bool ask_library);
void check_conv_transpose_fusion(const OpCall& call, bool ask_library);

/// Multiplications and additions of a convolution or transposed convolution.
double conv_flops(const OpCall& call);

}  // namespace tilemesh::cpu::onednn
