#include "backends/cpu/kernels/dnnl/norm.hpp"

#include <fmt/format.h>

#include "backends/cpu/kernels/dnnl/descriptor.hpp"

namespace tilemesh::cpu::onednn {
namespace {

constexpr double kElementsPerSecond = 0.7e9;  // of such kernels on one core

void check_f32(const OpCall& call) {
  require(call.epilogue.empty(), "an epilogue");
  require(call.outputs[0].dtype == DType::f32, "only f32");
  for (const OperandType& input : call.inputs) {
    require(!input.present || input.dtype == DType::f32, "only f32");
  }
}

int threads_of(const OpCall& call, const KernelContext& context) {
  const auto elements = static_cast<double>(call.inputs[0].shape.element_count());
  return threads_for(elements / kElementsPerSecond, context.threads);
}

/// With more dims oneDNN 2.6.3 takes the primitive and reads beyond its memory.
void check_image(const OpCall& call) {
  const int rank = call.inputs[0].shape.rank();
  require(rank >= 2 && rank <= 5, "other than channels and up to three dims of an image");
}

dnnl::memory::desc vector_desc(const OperandType& operand) {
  require(operand.layout.is_rows(), "a parameter that isn't in rows");
  return describe(operand.dtype, Shape{operand.shape.element_count()}, Layout::rows());
}

}  // namespace

std::unique_ptr<Kernel> make_batch_normalization(const OpCall& call, const KernelContext& context) {
  using dnnl::normalization_flags;
  check_f32(call);
  check_image(call);
  require(call.inputs[0].layout == call.outputs[0].layout, "input and output lie differently");
  const int threads = threads_of(call, context);
  const ThreadLimit limit(threads);
  const dnnl::batch_normalization_forward::desc desc(
      dnnl::prop_kind::forward_inference, describe(call.inputs[0]),
      static_cast<float>(call.attributes.number("epsilon")),
      normalization_flags::use_global_stats | normalization_flags::use_scale |
          normalization_flags::use_shift);
  const dnnl::batch_normalization_forward::primitive_desc primitive(desc, attributes_with(),
                                                                    cpu_engine());
  refuse_reference(primitive);
  KernelBuilder builder(threads, context.threads);
  std::vector<KernelBuilder::Argument> arguments{
      {DNNL_ARG_SRC, builder.operand(0, primitive.src_desc())},
      {DNNL_ARG_DST, builder.operand(call.inputs.size(), primitive.dst_desc())}};
  const int roles[] = {DNNL_ARG_SCALE, DNNL_ARG_SHIFT, DNNL_ARG_MEAN, DNNL_ARG_VARIANCE};
  for (std::size_t i = 0; i < std::size(roles); ++i) {
    arguments.push_back({roles[i], builder.operand(i + 1, vector_desc(call.inputs[i + 1]))});
  }
  builder.add(dnnl::batch_normalization_forward(primitive), primitive, std::move(arguments));
  return builder.finish(fmt::format("onednn:batch_normalization:{}", implementation_of(primitive)));
}

std::unique_ptr<Kernel> make_lrn(const OpCall& call, const KernelContext& context) {
  check_f32(call);
  require(call.inputs[0].layout == call.outputs[0].layout, "input and output lie differently");
  check_image(call);
  const std::int64_t size = call.attributes.integer("size");
  require(size % 2 == 1, "a window of even size");  // oneDNN centres it otherwise
  require(fits_an_int(size), "a window is larger than oneDNN counts");
  const int threads = threads_of(call, context);
  const ThreadLimit limit(threads);
  const dnnl::lrn_forward::desc desc(dnnl::prop_kind::forward_inference,
                                     dnnl::algorithm::lrn_across_channels, describe(call.inputs[0]),
                                     size, static_cast<float>(call.attributes.number("alpha")),
                                     static_cast<float>(call.attributes.number("beta")),
                                     static_cast<float>(call.attributes.number("bias")));
  const dnnl::lrn_forward::primitive_desc primitive(desc, attributes_with(), cpu_engine());
  refuse_reference(primitive);
  return unary_kernel<dnnl::lrn_forward>(primitive, "lrn", threads, context);
}

}  // namespace tilemesh::cpu::onednn
