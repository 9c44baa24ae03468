#include <algorithm>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

#include "backends/cpu/kernels/dnnl/conv.hpp"
#include "backends/cpu/kernels/dnnl/descriptor.hpp"
#include "backends/cpu/kernels/dnnl/in_place_pass.hpp"
#include "backends/cpu/same_memory.hpp"

// oneDNN applies bias and post-ops of a deconvolution in a plain loop that takes a hundred times
// the deconvolution's own time. So bias and epilogue are a pass of their own here, and windows that
// don't overlap are a matmul.

namespace tilemesh::cpu::onednn {
namespace {

using dnnl::memory;

std::int64_t groups_of(const OpCall& call) {
  return call.attributes.integer("group");
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

/// Every input pixel makes a patch of the output of its own: one matmul.
namespace patches {

bool fits(const OpCall& call) {
  const Window window = window_of(call);
  const auto is_zero = [](std::int64_t number) {
    return number == 0;
  };
  return groups_of(call) == 1 && window.kernel == window.strides &&
         std::ranges::all_of(window.pads_begin, is_zero) &&
         std::ranges::all_of(window.pads_end, is_zero) &&
         std::ranges::all_of(window.dilations, is_zero);
}

bool is_channels_last(const OperandType& image) {
  return same_memory(image.shape, image.layout, Layout::channels_last(image.shape.rank()));
}

struct Plan {
  dnnl::matmul::primitive_desc desc;
  PostOps post_ops;
  std::int64_t patch = 1;  // pixels
};

PostOpRules rules_of(const OpCall& call) {
  PostOpRules rules = channel_rules(call);
  rules.describe = [](const OperandType&) -> memory::desc {
    throw Refused{"operands don't fit the patches"};
  };
  return rules;
}

Plan plan(const OpCall& call) {
  check_dtypes(call);
  require(fits(call), "the windows overlap");
  Plan plan;
  plan.post_ops = post_ops_for(call, rules_of(call));
  const Shape& input = call.inputs[0].shape;
  for (const std::int64_t size : window_of(call).kernel) {
    plan.patch *= size;
  }
  const std::int64_t pixels = input.element_count() / std::max<std::int64_t>(input[1], 1);
  const std::int64_t columns = plan.patch * call.outputs[0].shape[1];
  const auto matrix = [](std::int64_t rows, std::int64_t width) {
    return describe(DType::f32, Shape{rows, width}, Layout::rows());
  };
  const memory::desc bias =
      bias_of(call, plan.post_ops).present() ? matrix(1, columns) : memory::desc();
  const dnnl::matmul::desc desc(matrix(pixels, input[1]), matrix(input[1], columns), bias,
                                matrix(pixels, columns));
  plan.desc = dnnl::matmul::primitive_desc(desc, attributes_with(plan.post_ops.ops), cpu_engine());
  refuse_reference(plan.desc);
  return plan;
}

/// Both sides of the last step, [n, h, w, kh, kw, channels]: as the matmul wrote it, and as it lies
/// in the image.
struct Rearrangement {
  memory::desc from;
  memory::desc to;
};
Rearrangement rearrangement(const OpCall& call) {
  const Shape& input = call.inputs[0].shape;
  const memory::dims kernel = window_of(call).kernel;
  const std::size_t spatial = kernel.size();
  memory::dims dims{input[0]};
  for (std::size_t i = 0; i < spatial; ++i) {
    dims.push_back(input[static_cast<int>(i) + 2]);
  }
  dims.insert(dims.end(), kernel.begin(), kernel.end());
  dims.push_back(call.outputs[0].shape[1]);
  memory::dims from(dims.size());
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    from[i] = stride;
    stride *= dims[i];
  }
  memory::dims to(dims.size());
  to.back() = 1;
  stride = dims.back();
  for (std::size_t i = spatial; i-- > 0;) {
    to[1 + spatial + i] = stride;
    to[1 + i] = stride * kernel[i];
    stride *= kernel[i] * dims[1 + i];
  }
  to[0] = stride;
  return {memory::desc(dims, memory::data_type::f32, from),
          memory::desc(dims, memory::data_type::f32, to)};
}

std::unique_ptr<Kernel> build(const OpCall& call, const KernelContext& context, int threads) {
  const Plan planned = plan(call);
  const int rank = call.inputs[0].shape.rank();
  const OperandType& weights = call.inputs[1];
  const Layout last = Layout::channels_last(rank);
  require(is_channels_last(call.inputs[0]) && is_channels_last(call.outputs[0]),
          "the images aren't channels-last");
  KernelBuilder builder(threads, context.threads);
  const int matrix = builder.input(1, describe(weights), describe(DType::f32, weights.shape, last));
  const int product = builder.scratch(planned.desc.dst_desc());
  std::vector<KernelBuilder::Argument> arguments{
      {DNNL_ARG_SRC, builder.operand(0, planned.desc.src_desc())},
      {DNNL_ARG_WEIGHTS, builder.view(matrix, planned.desc.weights_desc())},
      {DNNL_ARG_DST, product}};
  if (const Bias bias = bias_of(call, planned.post_ops); bias.present()) {
    const int tiled = builder.tiled(bias.operand, bias.desc, planned.patch);
    arguments.push_back({DNNL_ARG_BIAS, builder.view(tiled, planned.desc.bias_desc())});
  }
  builder.add(dnnl::matmul(planned.desc), planned.desc, std::move(arguments));
  const Rearrangement move = rearrangement(call);
  builder.add_reorder(builder.view(product, move.from),
                      builder.operand(call.inputs.size(), move.to));
  return builder.finish(
      fmt::format("onednn:conv_transpose:patches:{}", implementation_of(planned.desc)), &call);
}

}  // namespace patches

/// Any windows: oneDNN's deconvolution, then bias and epilogue in place.
namespace windows {

struct Plan {
  dnnl::deconvolution_forward::primitive_desc desc;
  memory::desc weights;  // as given
  PostOps post_ops;
};

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

PostOps post_ops_of(const OpCall& call) {
  PostOps post_ops = post_ops_for(call, channel_rules(call));
  require(post_ops.ops.len() == 0 || bias_of(call, post_ops).present(),
          "an epilogue without a bias");
  return post_ops;
}

Plan plan(const OpCall& call, bool any_weights) {
  check_dtypes(call);
  const OperandType& weights = call.inputs[1];
  const std::int64_t groups = groups_of(call);
  const Window window = window_of(call);
  Plan plan;
  plan.post_ops = post_ops_of(call);
  plan.weights =
      swap_channels(describe_grouped(weights.dtype, weights.shape, weights.layout, groups), groups);
  const dnnl::deconvolution_forward::desc desc(
      dnnl::prop_kind::forward_inference, dnnl::algorithm::deconvolution_direct,
      describe(call.inputs[0]),
      any_weights ? describe_any(weights.dtype, plan.weights.dims()) : plan.weights,
      describe(call.outputs[0]), window.strides, window.dilations, window.pads_begin,
      window.pads_end);
  plan.desc = dnnl::deconvolution_forward::primitive_desc(desc, attributes_with(), cpu_engine());
  refuse_reference(plan.desc);
  return plan;
}

std::optional<Layout> read_weights(const memory::desc& weights, std::int64_t groups) {
  return read_grouped_layout(swap_channels(weights, groups), groups);
}

/// As for a convolution: what oneDNN likes is tried first.
Plan plan_as_given(const OpCall& call) {
  const OperandType& weights = call.inputs[1];
  try {
    Plan liked = plan(call, true);
    const auto layout = read_weights(liked.desc.weights_desc(), groups_of(call));
    if (layout && same_memory(weights.shape, *layout, weights.layout)) {
      liked.weights = liked.desc.weights_desc();
      return liked;
    }
  } catch (const Refused&) {
  } catch (const dnnl::error&) {  // plain weights may still do
  }
  return plan(call, false);
}

/// The image plus the bias, then the rest of the epilogue.
void add_bias(const OpCall& call, const OpCall& planned, const Plan& plan, int image,
              KernelBuilder& builder) {
  const Bias bias = bias_of(planned, plan.post_ops);
  if (!bias.present()) {
    return;
  }
  Dims dims = pad_rank(Shape{}, call.outputs[0].shape.rank()).sizes();
  dims[1] = call.outputs[0].shape[1];
  const memory::desc vector = describe(DType::f32, Shape(dims), Layout::rows());
  make_pass(dnnl::algorithm::binary_add, {0, bias.operand, vector}, plan.post_ops,
            plan.desc.dst_desc())
      .add(builder, call, planned, image);
}

/// `planned`: the call as the plan was made for, which may want other layouts.
std::unique_ptr<Kernel> build(const OpCall& call, const OpCall& planned, const Plan& plan,
                              const KernelContext& context, int threads) {
  KernelBuilder builder(threads, context.threads);
  const int image = builder.output(
      call.inputs.size(), describe_as(call.outputs[0], planned.outputs[0]), plan.desc.dst_desc());
  builder.add(dnnl::deconvolution_forward(plan.desc), plan.desc,
              {{DNNL_ARG_SRC, builder.input(0, describe_as(call.inputs[0], planned.inputs[0]),
                                            plan.desc.src_desc())},
               {DNNL_ARG_WEIGHTS, builder.input(1, plan.weights, plan.desc.weights_desc())},
               {DNNL_ARG_DST, image}});
  add_bias(call, planned, plan, image, builder);
  return builder.finish(fmt::format("onednn:conv_transpose:{}", implementation_of(plan.desc)),
                        &call);
}

}  // namespace windows

}  // namespace

std::unique_ptr<Kernel> make_conv_transpose(const OpCall& call, const KernelContext& context) {
  const int threads = threads_for(conv_flops(call) / kFlopsPerSecond, context.threads);
  const ThreadLimit limit(threads);
  std::string reasons;
  const auto attempt = [&](auto&& build) -> std::unique_ptr<Kernel> {
    try {
      return build();
    } catch (const Refused& refused) {
      reasons += refused.reason + "; ";
    } catch (const dnnl::error& error) {
      reasons += std::string(error.what()) + "; ";
    }
    return nullptr;
  };
  if (auto kernel = attempt([&] { return patches::build(call, context, threads); })) {
    return kernel;
  }
  if (auto kernel = attempt([&] {
        const OpCall usual = with_usual_images(call);
        return windows::build(call, usual, windows::plan_as_given(usual), context, threads);
      })) {
    return kernel;
  }
  if (auto kernel = attempt([&] {
        const OpCall fast = in_fast_layouts(call);
        return windows::build(call, fast, windows::plan(fast, true), context, threads);
      })) {
    return kernel;
  }
  throw Refused{reasons};
}

void check_conv_transpose_fusion(const OpCall& call, bool ask_library) {
  check_dtypes(call);
  const OpCall fast = in_fast_layouts(call);
  if (patches::fits(fast)) {
    post_ops_for(fast, patches::rules_of(fast));
    return;
  }
  windows::post_ops_of(fast);
  if (ask_library) {
    windows::plan(fast, true);
  }
}

WeightsChoice choose_conv_transpose_weights(const OpCall& call) {
  OpCall plain = with_usual_images(call);
  plain.inputs[1].layout = Layout::rows();
  if (patches::fits(call) && patches::is_channels_last(call.inputs[0]) &&
      patches::is_channels_last(call.outputs[0])) {
    const patches::Plan plan = patches::plan(plain);
    return {Layout::channels_last(call.inputs[1].shape.rank()),
            fmt::format("onednn:conv_transpose:patches:{}", implementation_of(plan.desc))};
  }
  const windows::Plan plan = windows::plan(plain, true);
  const std::optional<Layout> layout =
      windows::read_weights(plan.desc.weights_desc(), groups_of(call));
  require(layout.has_value(), "the weights' layout can't be said");
  return {*layout, fmt::format("onednn:conv_transpose:{}", implementation_of(plan.desc))};
}

}  // namespace tilemesh::cpu::onednn
