#include <fmt/format.h>

#include "backends/cpu/kernels/dnnl/conv.hpp"
#include "backends/cpu/kernels/dnnl/descriptor.hpp"

namespace tilemesh::cpu::onednn {
namespace {

using dnnl::memory;

struct Plan {
  dnnl::deconvolution_forward::primitive_desc desc;
  memory::desc weights;  // as given
  PostOps post_ops;
};

std::int64_t groups_of(const OpCall& call) {
  return call.attributes.integer_or("group", 1);
}

/// Ours are [C, M / group, k...], oneDNN's [M, C, k...] with the groups in front. Its own inverse.
memory::desc swap_channels(const memory::desc& desc, std::int64_t groups) {
  std::vector<int> axes(static_cast<std::size_t>(desc.data.ndims));
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    axes[axis] = static_cast<int>(axis);
  }
  const std::size_t first = groups > 1 ? 1 : 0;
  std::swap(axes[first], axes[first + 1]);
  return desc.permute_axes(axes);
}

/// The pads at the end follow from the sizes, since output_padding takes from them.
Window window_of(const OpCall& call) {
  const Shape& input = call.inputs[0].shape;
  const Shape& output = call.outputs[0].shape;
  memory::dims kernel = dims_of(call.inputs[1].shape);
  kernel.erase(kernel.begin(), kernel.begin() + 2);
  Window window = onednn::window_of(call.attributes, kernel);
  for (std::size_t dim = 0; dim < kernel.size(); ++dim) {
    const int axis = static_cast<int>(dim) + 2;
    const std::int64_t reach = (kernel[dim] - 1) * (window.dilations[dim] + 1) + 1;
    window.pads_end[dim] =
        (input[axis] - 1) * window.strides[dim] + reach - window.pads_begin[dim] - output[axis];
    require(window.pads_end[dim] >= 0, "the output padding is larger than the pads");
  }
  return window;
}

void check_dtypes(const OpCall& call) {
  require(call.inputs[0].dtype == DType::f32 && call.inputs[1].dtype == DType::f32,
          "only f32 is computed in oneDNN");
}

Plan plan_deconv(const OpCall& call, bool any_weights) {
  check_dtypes(call);
  const OperandType& weights = call.inputs[1];
  const DType dtype = weights.dtype;
  const std::int64_t groups = groups_of(call);
  const Window window = window_of(call);
  Plan plan;
  plan.post_ops = post_ops_for(call, channel_rules(call));
  plan.weights =
      swap_channels(describe_grouped(weights.dtype, weights.shape, weights.layout, groups), groups);
  const dnnl::deconvolution_forward::desc desc(
      dnnl::prop_kind::forward_inference, dnnl::algorithm::deconvolution_direct,
      describe(call.inputs[0]),
      any_weights ? describe_any(dtype, plan.weights.dims()) : plan.weights,
      bias_of(call, plan.post_ops).desc, describe(call.outputs[0]), window.strides,
      window.dilations, window.pads_begin, window.pads_end);
  plan.desc = dnnl::deconvolution_forward::primitive_desc(desc, attributes_with(plan.post_ops.ops),
                                                          cpu_engine());
  refuse_reference(plan.desc);
  return plan;
}

/// `planned`: the call as the plan was made for, which may want other layouts.
std::unique_ptr<Kernel> build_deconv(const OpCall& call, const OpCall& planned, const Plan& plan,
                                     const KernelContext& context, int threads) {
  KernelBuilder builder(threads, context.threads);
  std::vector<KernelBuilder::Argument> arguments{
      {DNNL_ARG_SRC, builder.input(0, describe(call.inputs[0]), plan.desc.src_desc())},
      {DNNL_ARG_WEIGHTS, builder.input(1, plan.weights, plan.desc.weights_desc())},
      {DNNL_ARG_DST,
       builder.output(call.inputs.size(), describe(call.outputs[0]), plan.desc.dst_desc())}};
  if (const Bias bias = bias_of(planned, plan.post_ops); bias.present()) {
    arguments.push_back({DNNL_ARG_BIAS, builder.operand(bias.operand, bias.desc)});
  }
  plan.post_ops.add_arguments(builder, call, planned, arguments);
  builder.add(dnnl::deconvolution_forward(plan.desc), plan.desc, std::move(arguments));
  return builder.finish(fmt::format("onednn:conv_transpose:{}", implementation_of(plan.desc)));
}

}  // namespace

std::unique_ptr<Kernel> make_conv_transpose(const OpCall& call, const KernelContext& context) {
  const int threads = threads_for(conv_flops(call) / kFlopsPerSecond, context.threads);
  const ThreadLimit limit(threads);
  std::string reason;
  try {
    return build_deconv(call, call, plan_deconv(call, false), context, threads);
  } catch (const Refused& refused) {
    reason = refused.reason;
  } catch (const dnnl::error& error) {
    reason = error.what();
  }
  try {
    const OpCall fast = in_fast_layouts(call);
    return build_deconv(call, fast, plan_deconv(fast, true), context, threads);
  } catch (const Refused& refused) {
    throw Refused{fmt::format("{}; with reorders: {}", reason, refused.reason)};
  }
}

void check_conv_transpose_fusion(const OpCall& call, bool ask_library) {
  check_dtypes(call);
  const OpCall fast = in_fast_layouts(call);
  post_ops_for(fast, channel_rules(fast));
  if (ask_library) {
    plan_deconv(fast, true);
  }
}

WeightsChoice choose_conv_transpose_weights(const OpCall& call) {
  OpCall plain = call;
  plain.inputs[1].layout = Layout::rows();
  const Plan plan = plan_deconv(plain, true);
  const std::int64_t groups = groups_of(call);
  const std::optional<Layout> layout =
      read_grouped_layout(swap_channels(plan.desc.weights_desc(), groups), groups);
  require(layout.has_value(), "the weights' layout can't be said");
  return {*layout, fmt::format("onednn:conv_transpose:{}", implementation_of(plan.desc))};
}

}  // namespace tilemesh::cpu::onednn
