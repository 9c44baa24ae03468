#include "backends/cpu/kernels/dnnl/conv.hpp"

#include <fmt/format.h>

#include "backends/cpu/kernels/dnnl/descriptor.hpp"
#include "backends/cpu/kernels/dnnl/in_place_pass.hpp"
#include "backends/cpu/same_memory.hpp"

namespace tilemesh::cpu::onednn {
namespace {

using dnnl::memory;

struct Plan {
  dnnl::convolution_forward::primitive_desc desc;
  PostOps post_ops;
  std::optional<InPlacePass> pass;  // what the primitive doesn't do itself
};

memory::dims grouped_weights_dims(const Shape& weights, std::int64_t groups) {
  memory::dims dims = dims_of(weights);
  if (groups > 1) {
    dims[0] /= groups;
    dims.insert(dims.begin(), groups);
  }
  return dims;
}

std::int64_t groups_of(const OpCall& call) {
  return call.attributes.integer("group");
}

void check_dtypes(const OpCall& call) {
  const DType dtype = call.inputs[0].dtype;
  require(dtype == DType::f32 || dtype == DType::bf16, "only f32 and bf16 are computed in oneDNN");
  require(dtype != DType::bf16 || has_bf16(), "this processor has no bf16 arithmetic");
  require(call.inputs[1].dtype == dtype && call.outputs[0].dtype == dtype, "mixed element types");
}

Plan plan_conv(const OpCall& call, bool any_weights) {
  check_dtypes(call);
  const OperandType& source = call.inputs[0];
  const OperandType& weights = call.inputs[1];
  const std::int64_t groups = groups_of(call);
  PostOps post_ops = post_ops_for(call, channel_rules(call));
  memory::dims kernel = dims_of(weights.shape);
  kernel.erase(kernel.begin(), kernel.begin() + 2);
  const Window window = window_of(call.attributes, kernel);
  const memory::desc weights_desc =
      any_weights ? describe_any(weights.dtype, grouped_weights_dims(weights.shape, groups))
                  : describe_grouped(weights.dtype, weights.shape, weights.layout, groups);
  const dnnl::convolution_forward::desc desc(
      dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, describe(source),
      weights_desc, bias_of(call, post_ops).desc, describe(call.outputs[0]), window.strides,
      window.dilations, window.pads_begin, window.pads_end);
  using Primitive = dnnl::convolution_forward::primitive_desc;
  Primitive primitive(desc, attributes_with(post_ops.ops), cpu_engine());
  refuse_reference(primitive);
  const bool is_gemm = implementation_of(primitive).find("gemm") != std::string::npos;
  if (!is_gemm || post_ops.binaries.empty()) {
    return {std::move(primitive), std::move(post_ops), std::nullopt};
  }
  // Its post-ops with operands give wrong numbers in oneDNN 2.6.3.
  SplitPostOps split = split_at_operand(post_ops, primitive.dst_desc());
  primitive = Primitive(desc, attributes_with(split.head.ops), cpu_engine());
  refuse_reference(primitive);
  return {std::move(primitive), std::move(split.head), std::move(split.pass)};
}

/// The plan for the weights as they lie. What oneDNN would choose is tried first, since a layout
/// doesn't say all that it compares.
Plan plan_as_given(const OpCall& call) {
  const OperandType& weights = call.inputs[1];
  try {
    Plan plan = plan_conv(call, true);
    const std::optional<Layout> liked =
        read_grouped_layout(plan.desc.weights_desc(), groups_of(call));
    if (liked && same_memory(weights.shape, *liked, weights.layout)) {
      return plan;
    }
  } catch (const Refused&) {
  } catch (const dnnl::error&) {  // plain weights may still do
  }
  return plan_conv(call, false);
}

memory::desc given_weights(const OperandType& weights, std::int64_t groups,
                           const memory::desc& wanted) {
  const std::optional<Layout> layout = read_grouped_layout(wanted, groups);
  const bool is_same = layout && same_memory(weights.shape, *layout, weights.layout);
  return is_same ? wanted : describe_grouped(weights.dtype, weights.shape, weights.layout, groups);
}

/// `planned`: the call as the plan was made for, which may want other layouts.
std::unique_ptr<Kernel> build_conv(const OpCall& call, const OpCall& planned, const Plan& plan,
                                   const KernelContext& context, int threads) {
  KernelBuilder builder(threads, context.threads);
  const OperandType& weights = call.inputs[1];
  const std::size_t output = call.inputs.size();
  const memory::desc wanted = plan.desc.weights_desc();
  const int image = builder.output(output, describe_as(call.outputs[0], planned.outputs[0]),
                                   plan.desc.dst_desc());
  std::vector<KernelBuilder::Argument> arguments{
      {DNNL_ARG_SRC,
       builder.input(0, describe_as(call.inputs[0], planned.inputs[0]), plan.desc.src_desc())},
      {DNNL_ARG_WEIGHTS, builder.input(1, given_weights(weights, groups_of(call), wanted), wanted)},
      {DNNL_ARG_DST, image}};
  if (const Bias bias = bias_of(planned, plan.post_ops); bias.present()) {
    arguments.push_back({DNNL_ARG_BIAS, builder.operand(bias.operand, bias.desc)});
  }
  plan.post_ops.add_arguments(builder, call, planned, arguments);
  builder.add(dnnl::convolution_forward(plan.desc), plan.desc, std::move(arguments));
  if (plan.pass) {
    plan.pass->add(builder, call, planned, image);
  }
  return builder.finish(fmt::format("onednn:conv:{}", implementation_of(plan.desc)), &call);
}

}  // namespace

Window window_of(const Attributes& attributes, const memory::dims& kernel) {
  const std::size_t rank = kernel.size();
  Window window{kernel, attributes.integers("strides"), attributes.integers("dilations"), {}, {}};
  const std::vector<std::int64_t>& pads = attributes.integers("pads");
  for (std::size_t dim = 0; dim < rank; ++dim) {
    window.dilations[dim] -= 1;
    window.pads_begin.push_back(pads[dim]);
    window.pads_end.push_back(pads[rank + dim]);
    require(fits_an_int(window.strides[dim]) && fits_an_int(pads[dim]) &&
                fits_an_int(pads[rank + dim]) && fits_an_int(window.dilations[dim]) &&
                fits_an_int(kernel[dim]) &&
                fits_an_int((kernel[dim] - 1) * (window.dilations[dim] + 1) + 1),
            "a window is larger than oneDNN counts");
  }
  return window;
}

void align_images(OperandType& source, OperandType& target) {
  if (same_memory(source.shape, source.layout, target.layout)) {
    source.layout = target.layout;
  } else if (same_memory(target.shape, target.layout, source.layout)) {
    target.layout = source.layout;
  }
}

OpCall with_usual_images(const OpCall& call) {
  OpCall usual = call;
  OperandType& source = usual.inputs[0];
  OperandType& target = usual.outputs[0];
  align_images(source, target);
  const Layout last = Layout::channels_last(target.shape.rank());
  if (same_memory(source.shape, source.layout, last) &&
      same_memory(target.shape, target.layout, last)) {
    source.layout = target.layout = last;
  }
  for (std::size_t i = 3; i < usual.inputs.size(); ++i) {
    OperandType& operand = usual.inputs[i];
    if (operand.present && operand.shape == target.shape &&
        same_memory(operand.shape, operand.layout, target.layout)) {
      operand.layout = target.layout;
    }
  }
  return usual;
}

memory::desc describe_as(const OperandType& operand, const OperandType& planned) {
  const bool is_same = same_memory(operand.shape, operand.layout, planned.layout);
  return is_same ? describe(planned) : describe(operand);
}

OpCall in_fast_layouts(const OpCall& call) {
  OpCall fast = call;
  const Layout layout = Layout::channels_last(call.outputs[0].shape.rank());
  fast.inputs[0].layout = layout;
  for (std::size_t i = 3; i < fast.inputs.size(); ++i) {
    if (fast.inputs[i].present && fast.inputs[i].shape == call.outputs[0].shape) {
      fast.inputs[i].layout = layout;
    }
  }
  fast.outputs[0].layout = layout;
  return fast;
}

Bias bias_of(const OpCall& call, const PostOps& post_ops) {
  if (call.inputs.size() > 2 && call.inputs[2].present) {
    require(call.inputs[2].layout.is_rows(), "a bias that isn't in rows");
    return {describe(call.inputs[2]), 2};
  }
  if (post_ops.bias_operand == PostOps::kNone) {
    return {};
  }
  const auto operand = static_cast<std::size_t>(post_ops.bias_operand);
  return {describe(call.inputs[operand].dtype, Shape{call.outputs[0].shape[1]}, Layout::rows()),
          operand};
}

PostOpRules channel_rules(const OpCall& call) {
  const OperandType output = call.outputs[0];
  const auto is_per_channel = [output](const Shape& shape) {
    return shape.element_count() == output.shape[1] && shape[1] == output.shape[1];
  };
  PostOpRules rules;
  rules.describe = [output, is_per_channel](const OperandType& operand) {
    require(operand.dtype == DType::f32 || operand.dtype == output.dtype,
            "of another element type");
    const int rank = output.shape.rank();
    require(operand.shape.rank() <= rank, "an operand of more dims than the output");
    const Shape shape = pad_rank(operand.shape, rank);
    if (shape.element_count() == 1 || is_per_channel(shape)) {
      require(is_linear(operand), "the operand's layout has gaps");
      return describe(operand.dtype, shape, Layout::rows());
    }
    require(shape == output.shape,
            fmt::format("an operand {} is neither one number, one per channel, nor of the output's "
                        "shape {}",
                        operand.shape.to_string(), output.shape.to_string()));
    require(operand.layout == output.layout, "the operand lies in another layout than the output");
    require(operand.shape.rank() == rank || operand.layout.is_rows(),
            "the operand's layout is of another rank");
    return describe(operand.dtype, shape, output.layout);
  };
  const bool has_bias = call.inputs.size() > 2 && call.inputs[2].present;
  rules.is_bias = [=](const OperandType& operand) {
    const int rank = output.shape.rank();
    return !has_bias && operand.dtype == DType::f32 && operand.shape.rank() <= rank &&
           is_per_channel(pad_rank(operand.shape, rank)) && is_linear(operand);
  };
  return rules;
}

void check_conv_fusion(const OpCall& call, bool ask_library) {
  check_dtypes(call);
  const OpCall fast = in_fast_layouts(call);
  post_ops_for(fast, channel_rules(fast));
  if (ask_library) {
    plan_conv(fast, true);
  }
}

double conv_flops(const OpCall& call) {
  const bool transposed = call.def->name == "conv_transpose";
  const Shape& image = transposed ? call.inputs[0].shape : call.outputs[0].shape;
  const Shape& weights = call.inputs[1].shape;
  const double per_pixel = 2.0 * static_cast<double>(weights.element_count());
  double pixels = static_cast<double>(image[0]);
  for (int dim = 2; dim < image.rank(); ++dim) {
    pixels *= static_cast<double>(image[dim]);
  }
  return per_pixel * pixels;
}

std::unique_ptr<Kernel> make_conv(const OpCall& call, const KernelContext& context) {
  const int threads = threads_for(conv_flops(call) / kFlopsPerSecond, context.threads);
  const ThreadLimit limit(threads);
  std::string reason;
  try {
    const OpCall usual = with_usual_images(call);
    return build_conv(call, usual, plan_as_given(usual), context, threads);
  } catch (const Refused& refused) {
    reason = refused.reason;
  } catch (const dnnl::error& error) {
    reason = error.what();
  }
  try {
    const OpCall fast = in_fast_layouts(call);
    return build_conv(call, fast, plan_conv(fast, true), context, threads);
  } catch (const Refused& refused) {
    throw Refused{fmt::format("{}; with reorders: {}", reason, refused.reason)};
  }
}

WeightsChoice choose_conv_weights(const OpCall& call) {
  const Plan plan = plan_conv(with_usual_images(call), true);
  const std::optional<Layout> layout =
      read_grouped_layout(plan.desc.weights_desc(), groups_of(call));
  require(layout.has_value(), "the weights' layout can't be said");
  return {*layout, fmt::format("onednn:conv:{}", implementation_of(plan.desc))};
}

}  // namespace tilemesh::cpu::onednn
