#include "backends/cpu/kernels/dnnl/pool.hpp"

#include <algorithm>

#include "backends/cpu/kernels/dnnl/conv.hpp"
#include "backends/cpu/kernels/dnnl/descriptor.hpp"

namespace tilemesh::cpu::onednn {
namespace {

using dnnl::algorithm;

/// With ceil_mode a window may reach past the pads: the pads grow to hold it.
bool grow_pads(Window& window, const Shape& input, const Shape& output) {
  bool grew = false;
  for (std::size_t dim = 0; dim < window.kernel.size(); ++dim) {
    const int axis = static_cast<int>(dim) + 2;
    const std::int64_t reach = (window.kernel[dim] - 1) * (window.dilations[dim] + 1) + 1;
    const std::int64_t needed =
        (output[axis] - 1) * window.strides[dim] + reach - input[axis] - window.pads_begin[dim];
    if (needed > window.pads_end[dim]) {
      window.pads_end[dim] = needed;
      grew = true;
    }
  }
  return grew;
}

template <class Pooling>
std::unique_ptr<Kernel> pool_kernel(const typename Pooling::desc& desc, int threads,
                                    const KernelContext& context) {
  const typename Pooling::primitive_desc primitive(desc, attributes_with(), cpu_engine());
  refuse_reference(primitive);
  return unary_kernel<Pooling>(primitive, "pool", threads, context);
}

std::unique_ptr<Kernel> make_pool(const OpCall& call, const KernelContext& context, algorithm kind,
                                  const Window& window) {
  OperandType input = call.inputs[0];
  OperandType output = call.outputs[0];
  align_images(input, output);
  require(input.dtype == DType::f32 || (input.dtype == DType::bf16 && has_bf16()),
          "only f32, and bf16 where the processor has it");
  require(call.epilogue.empty(), "a pool has no epilogue");
  require(call.outputs.size() < 2 || !call.outputs[1].present, "indices are wanted");
  double window_size = 1;
  for (const std::int64_t size : window.kernel) {
    window_size *= static_cast<double>(size);
  }
  const double reads = static_cast<double>(output.shape.element_count()) * window_size * 4;
  const int threads = threads_for(reads / kBytesPerSecond / 4, context.threads);
  const ThreadLimit limit(threads);
  // The older primitive has implementations that the one with dilations lacks.
  if (std::ranges::all_of(window.dilations, [](std::int64_t gap) { return gap == 0; })) {
    const dnnl::pooling_forward::desc desc(dnnl::prop_kind::forward_inference, kind,
                                           describe(input), describe(output), window.strides,
                                           window.kernel, window.pads_begin, window.pads_end);
    return pool_kernel<dnnl::pooling_forward>(desc, threads, context);
  }
  const dnnl::pooling_v2_forward::desc desc(
      dnnl::prop_kind::forward_inference, kind, describe(input), describe(output), window.strides,
      window.kernel, window.dilations, window.pads_begin, window.pads_end);
  return pool_kernel<dnnl::pooling_v2_forward>(desc, threads, context);
}

Window window_of(const OpCall& call) {
  return onednn::window_of(call.attributes, call.attributes.integers("kernel"));
}

}  // namespace

std::unique_ptr<Kernel> make_max_pool(const OpCall& call, const KernelContext& context) {
  Window window = window_of(call);
  grow_pads(window, call.inputs[0].shape, call.outputs[0].shape);
  return make_pool(call, context, algorithm::pooling_max, window);
}

std::unique_ptr<Kernel> make_average_pool(const OpCall& call, const KernelContext& context) {
  const bool include_pads = call.attributes.integer("count_include_pad") != 0;
  Window window = window_of(call);
  const bool grew = grow_pads(window, call.inputs[0].shape, call.outputs[0].shape);
  require(!grew || !include_pads, "ceil_mode with pads that count");
  return make_pool(call, context,
                   include_pads ? algorithm::pooling_avg_include_padding
                                : algorithm::pooling_avg_exclude_padding,
                   window);
}

}  // namespace tilemesh::cpu::onednn
