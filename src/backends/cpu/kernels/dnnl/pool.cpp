#include "backends/cpu/kernels/dnnl/pool.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tilemesh/types/half.hpp"
#include "tilemesh/types/strided.hpp"

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

/// A max pool of oneDNN's, which leaves NaN out and starts from the lowest finite number: windows
/// of NaN or -infinity alone are looked at once more.
class MaxPoolKernel final : public Kernel {
 public:
  MaxPoolKernel(std::unique_ptr<Kernel> pool, const OpCall& call, Window window)
      : pool_(std::move(pool)),
        input_(call.inputs[0]),
        output_(call.outputs[0]),
        window_(std::move(window)) {}

  std::int64_t scratch_bytes() const override { return pool_->scratch_bytes(); }
  void run(std::byte* const* operands, std::byte* scratch) override {
    pool_->run(operands, scratch);
    if (input_.dtype == DType::f32) {
      look_again<float>(operands[0], operands[1]);
    } else {
      look_again<BFloat16>(operands[0], operands[1]);
    }
  }
  int threads() const override { return pool_->threads(); }
  std::string_view name() const override { return pool_->name(); }

 private:
  static bool is_lowest(float value) { return value <= -std::numeric_limits<float>::max(); }
  static bool is_lowest(BFloat16 value) { return static_cast<float>(value) <= -0x1.fep127f; }

  template <class T>
  void look_again(const std::byte* input, std::byte* output) const {
    auto* y = reinterpret_cast<T*>(output);
    const std::int64_t count = output_.bytes() / size_of(output_.dtype);
    int found = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      found |= is_lowest(y[i]) ? 1 : 0;
    }
    if (found == 0) return;
    const auto* x = reinterpret_cast<const T*>(input);
    Dims index;
    index.resize(static_cast<std::size_t>(output_.shape.rank()));
    for (std::int64_t i = 0; i < output_.shape.element_count(); ++i) {
      T& value = y[element_offset(output_.layout, output_.shape, index)];
      if (is_lowest(value)) value = largest<T>(x, index);
      for (std::size_t d = index.size(); d-- > 0;) {
        if (++index[d] < output_.shape[static_cast<int>(d)]) break;
        index[d] = 0;
      }
    }
  }

  /// The largest number of the window at an output's index; NaN if it holds no number.
  template <class T>
  T largest(const T* x, const Dims& index) const {
    std::int64_t taps = 1;
    for (const std::int64_t size : window_.kernel) {
      taps *= size;
    }
    T best(-std::numeric_limits<float>::infinity());
    bool found = false;
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      Dims at = index;
      bool inside = true;
      std::int64_t rest = tap;
      for (std::size_t d = window_.kernel.size(); d-- > 0;) {
        const std::int64_t step = rest % window_.kernel[d];
        rest /= window_.kernel[d];
        std::int64_t& place = at[d + 2];
        place =
            place * window_.strides[d] - window_.pads_begin[d] + step * (window_.dilations[d] + 1);
        inside = inside && place >= 0 && place < input_.shape[static_cast<int>(d) + 2];
      }
      if (!inside) continue;
      const T value = x[element_offset(input_.layout, input_.shape, at)];
      const auto number = static_cast<float>(value);
      if (!found || number > static_cast<float>(best) || std::isnan(static_cast<float>(best))) {
        best = value;
        found = true;
      }
    }
    return best;
  }

  std::unique_ptr<Kernel> pool_;
  OperandType input_;
  OperandType output_;
  Window window_;
};

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
  return std::make_unique<MaxPoolKernel>(make_pool(call, context, algorithm::pooling_max, window),
                                         call, window);
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
