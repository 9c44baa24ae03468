#include <algorithm>
#include <string>

#include "dot_products.hpp"
#include "offers.hpp"
#include "parallel.hpp"

namespace tilemesh::cpu::highway {
namespace {

constexpr double kNanosecondsPerProduct = 0.02;

/// y [N, M, L] = w [M, 1, K] times the windows of x [N, 1, T], which start every `stride` elements;
/// in rows, or with the channels last.
class ConvWindowsKernel final : public Kernel {
 public:
  ConvWindowsKernel(const OpCall& call, std::int64_t stride, std::unique_ptr<Kernel> epilogue,
                    int device_threads)
      : batch_(call.inputs[0].shape[0]),
        length_(call.inputs[0].shape[2]),
        filters_(call.inputs[1].shape[0]),
        window_(call.inputs[1].shape[2]),
        stride_(stride),
        windows_(call.outputs[0].shape[2]),
        has_bias_(call.inputs.size() > 2 && call.inputs[2].present),
        channels_last_(!call.outputs[0].layout.is_rows()),
        place_(call.inputs.size()),
        epilogue_(std::move(epilogue)) {
    const auto products = static_cast<double>(batch_ * windows_) * static_cast<double>(filters_) *
                          static_cast<double>(window_);
    threads_ = threads_for(products * kNanosecondsPerProduct, device_threads);
  }

  void run(std::byte* const* operands, std::byte* scratch) override {
    const auto floats = [&](std::size_t i) {
      return reinterpret_cast<float*>(operands[i]);
    };
    const float* bias = has_bias_ ? floats(2) : nullptr;
    for (std::int64_t n = 0; n < batch_; ++n) {
      const RowsOf windows{floats(0) + n * length_, windows_, stride_};
      float* y = floats(place_) + n * filters_ * windows_;
      parallel_for(threads_, filters_, [&](int, std::int64_t begin, std::int64_t end) {
        const RowsOf filters{floats(1) + begin * window_, end - begin, window_};
        if (channels_last_) {
          fill_channels_last(y, bias, begin, end);
          add_products_(windows, filters, window_, y + begin, filters_);
        } else {
          fill_rows(y, bias, begin, end);
          add_products_(filters, windows, window_, y + begin * windows_, windows_);
        }
      });
    }
    if (epilogue_) epilogue_->run(operands, scratch);
  }
  std::int64_t scratch_bytes() const override { return epilogue_ ? epilogue_->scratch_bytes() : 0; }
  int threads() const override { return std::max(threads_, epilogue_ ? epilogue_->threads() : 1); }
  std::string_view name() const override { return "highway:conv_windows"; }

 private:
  void fill_rows(float* y, const float* bias, std::int64_t begin, std::int64_t end) const {
    for (std::int64_t m = begin; m < end; ++m) {
      std::fill_n(y + m * windows_, windows_, bias == nullptr ? 0.0f : bias[m]);
    }
  }
  void fill_channels_last(float* y, const float* bias, std::int64_t begin, std::int64_t end) const {
    for (std::int64_t i = 0; i < windows_; ++i, y += filters_) {
      if (bias == nullptr) {
        std::fill(y + begin, y + end, 0.0f);
      } else {
        std::copy(bias + begin, bias + end, y + begin);
      }
    }
  }

  std::int64_t batch_, length_, filters_, window_, stride_, windows_;
  bool has_bias_;
  bool channels_last_;
  std::size_t place_;
  std::unique_ptr<Kernel> epilogue_;
  int threads_ = 1;
  AddDotProductsFn add_products_ = add_dot_products();
};

/// Empty, or why the call isn't such a convolution.
std::string why_not_windows(const OpCall& call) {
  constexpr std::int64_t kLeastWindow = 16;  // shorter ones leave vectors half empty
  const auto is_f32 = [](const OperandType& type) {
    return !type.present || type.dtype == DType::f32;
  };
  if (!std::ranges::all_of(call.inputs, is_f32) || !is_f32(call.outputs[0])) {
    return "a dtype other than f32";
  }
  if (call.inputs[0].shape.rank() != 3) return "images of other than one dim";
  if (call.inputs[0].shape[1] != 1) return "several channels";
  if (call.inputs[1].shape[2] < kLeastWindow) return "a short window";
  for (std::size_t i = 0; i < std::min<std::size_t>(call.inputs.size(), 3); ++i) {
    if (call.inputs[i].present && !call.inputs[i].layout.is_rows()) return "inputs not in rows";
  }
  const Layout& layout = call.outputs[0].layout;
  if (!layout.is_rows() && layout != Layout::channels_last(3)) return "blocks";
  for (const std::int64_t pad : call.attributes.integers("pads")) {
    if (pad != 0) return "padding";
  }
  for (const std::int64_t dilation : call.attributes.integers("dilations")) {
    if (dilation != 1) return "dilation";
  }
  return "";
}

}  // namespace

KernelOffer offer_conv_windows(const OpCall& call, const KernelContext& context) {
  if (std::string reason = why_not_windows(call); !reason.empty()) return {nullptr, reason};
  std::unique_ptr<Kernel> epilogue;
  if (!call.epilogue.empty()) {
    KernelOffer offer = offer_epilogue(call, context);
    if (!offer.kernel) return offer;
    epilogue = std::move(offer.kernel);
  }
  return {std::make_unique<ConvWindowsKernel>(call, call.attributes.integers("strides")[0],
                                              std::move(epilogue), context.threads),
          ""};
}

}  // namespace tilemesh::cpu::highway
