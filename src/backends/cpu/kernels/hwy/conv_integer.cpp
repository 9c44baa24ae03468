#include <algorithm>
#include <array>
#include <string>

#include "tilemesh/base/math.hpp"

#include "integer_operands.hpp"
#include "offers.hpp"
#include "parallel.hpp"

namespace tilemesh::cpu::highway {
namespace {

/// Windows over three spatial dims, the first ones of size 1 where there are fewer.
struct Slide {
  std::array<std::int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1},
      dilation{1, 1, 1}, pad{0, 0, 0};

  std::int64_t in_count() const { return in[0] * in[1] * in[2]; }
  std::int64_t out_count() const { return out[0] * out[1] * out[2]; }
  std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
};

Slide slide_of(const OpCall& call) {
  Slide slide;
  const Shape& x = call.inputs[0].shape;
  const auto& strides = call.attributes.integers("strides");
  const auto& dilations = call.attributes.integers("dilations");
  const auto& pads = call.attributes.integers("pads");
  for (int d = 2; d < x.rank(); ++d) {
    const auto to = static_cast<std::size_t>(3 - x.rank() + d);
    const auto from = static_cast<std::size_t>(d - 2);
    slide.in[to] = x[d];
    slide.out[to] = call.outputs[0].shape[d];
    slide.kernel[to] = call.inputs[1].shape[d];
    slide.stride[to] = strides[from];
    slide.dilation[to] = dilations[from];
    slide.pad[to] = pads[from];
  }
  // Pixel by pixel, an image is one long line.
  if (slide.taps() == 1 && slide.in == slide.out && slide.stride == slide.kernel &&
      slide.pad == std::array<std::int64_t, 3>{}) {
    slide.in = slide.out = {1, 1, slide.out_count()};
  }
  return slide;
}

/// A run of windows in one line of the output, and what a tap sees of it.
struct Run {
  std::int64_t begin = 0, end = 0;  // of the run's windows, those that see the image
  std::int64_t source = 0;          // in the image, for window `begin`
};

class ConvIntegerKernel final : public Kernel {
 public:
  ConvIntegerKernel(const OpCall& call, int device_threads)
      : slide_(slide_of(call)),
        batch_(call.inputs[0].shape[0]),
        channels_(call.inputs[0].shape[1]),
        filters_(call.outputs[0].shape[1]),
        groups_(call.attributes.integer("group")),
        depth_(call.inputs[1].shape[1] * slide_.taps()),
        x_signed_(call.inputs[0].dtype == DType::i8),
        w_signed_(call.inputs[1].dtype == DType::i8),
        x_zeros_(row_zeros(call, 0)),
        w_zeros_(row_zeros(call, 1)),
        place_(call.inputs.size()),
        panels_(ceil_div(slide_.out_count(), fns_.columns)) {
    constexpr std::int64_t kFewFilters = 4;  // of a group, for which panels don't pay
    direct_ = filters_ / groups_ < kFewFilters;
    const auto products =
        static_cast<double>(call.outputs[0].shape.element_count()) * static_cast<double>(depth_);
    threads_ =
        threads_for(products * kNanosecondsPerIntegerProduct * (direct_ ? 8 : 1), device_threads);
    weight_bytes_ = round_up(filters_ * even(depth_) * 2, std::int64_t{64});
    const std::int64_t rows = std::min(even(depth_), kPanelDepth) + 2;
    thread_bytes_ = direct_ ? 0 : round_up(rows * fns_.columns * 2, std::int64_t{64});
  }

  void run(std::byte* const* operands, std::byte* scratch) override {
    auto* w = reinterpret_cast<std::int16_t*>(scratch);
    auto* y = reinterpret_cast<std::int32_t*>(operands[place_]);
    if (depth_ == 0) {
      std::fill_n(y, batch_ * filters_ * slide_.out_count(), 0);
      return;
    }
    widen_rows(fns_, operands[1], w_signed_, w_zeros_, operands, filters_, depth_, w);
    const std::int64_t count = direct_ ? batch_ * filters_ : batch_ * groups_ * panels_;
    const std::int32_t zero = x_zeros_.at(operands, 0);
    parallel_for(threads_, count, [&](int thread, std::int64_t begin, std::int64_t end) {
      auto* own = reinterpret_cast<std::int16_t*>(scratch + weight_bytes_ + thread * thread_bytes_);
      for (std::int64_t i = begin; i < end; ++i) {
        if (direct_) {
          run_filter(operands[0], w, zero, i, y);
        } else {
          run_panel(operands[0], w, zero, i / panels_, i % panels_, own, y);
        }
      }
    });
  }
  std::int64_t scratch_bytes() const override { return weight_bytes_ + thread_bytes_ * threads_; }
  int threads() const override { return threads_; }
  std::string_view name() const override { return "highway:conv_integer"; }

 private:
  std::int64_t group_channels() const { return channels_ / groups_; }

  /// The image that element `k` of a filter's depth reads, and its tap's run of `count` windows
  /// from window `x` of line `line` on.
  Run run_of(std::int64_t tap, std::int64_t line, std::int64_t x, std::int64_t count) const {
    const std::array<std::int64_t, 3> at = {tap / (slide_.kernel[1] * slide_.kernel[2]),
                                            tap / slide_.kernel[2] % slide_.kernel[1],
                                            tap % slide_.kernel[2]};
    const auto first = [&](std::size_t d, std::int64_t window) {
      return window * slide_.stride[d] + at[d] * slide_.dilation[d] - slide_.pad[d];
    };
    const std::int64_t z = first(0, line / slide_.out[1]);
    const std::int64_t y = first(1, line % slide_.out[1]);
    if (z < 0 || z >= slide_.in[0] || y < 0 || y >= slide_.in[1]) return {};
    const std::int64_t left = first(2, x);
    const std::int64_t stride = slide_.stride[2];
    Run run;
    run.begin = std::min(count, left >= 0 ? 0 : ceil_div(-left, stride));
    const std::int64_t room = slide_.in[2] - left;
    run.end = std::max(run.begin, room <= 0 ? 0 : std::min(count, ceil_div(room, stride)));
    run.source = (z * slide_.in[1] + y) * slide_.in[2] + left + run.begin * stride;
    return run;
  }

  /// One row of a panel: what element `k` of the depth multiplies, for `count` windows.
  void fill_line(const std::byte* images, std::int32_t zero, std::int64_t k, std::int64_t window,
                 std::int64_t count, std::int16_t* to) const {
    const std::byte* image = images + k / slide_.taps() * slide_.in_count();
    const std::int64_t width = slide_.out[2];
    for (std::int64_t line = window / width, x = window % width; count > 0; ++line, x = 0) {
      const std::int64_t part = std::min(count, width - x);
      const Run run = run_of(k % slide_.taps(), line, x, part);
      std::fill_n(to, run.begin, std::int16_t{0});
      if (slide_.stride[2] == 1) {
        fns_.widen(image + run.source, x_signed_, zero, to + run.begin, run.end - run.begin);
      } else {
        const std::byte* from = image + run.source;
        for (std::int64_t i = run.begin; i < run.end; ++i, from += slide_.stride[2]) {
          const auto value = static_cast<std::uint8_t>(*from);
          const std::int32_t wide = x_signed_ ? static_cast<std::int8_t>(value) : value;
          to[i] = static_cast<std::int16_t>(wide - zero);
        }
      }
      std::fill(to + run.end, to + part, std::int16_t{0});
      to += part;
      count -= part;
    }
  }

  void run_panel(const std::byte* x, const std::int16_t* w, std::int32_t zero, std::int64_t index,
                 std::int64_t panel, std::int16_t* own, std::int32_t* y) const {
    const std::int64_t group = index % groups_;
    const std::byte* images = x + index * group_channels() * slide_.in_count();
    const std::int64_t filters = filters_ / groups_;
    const std::int64_t window = panel * fns_.columns;
    const std::int64_t count = std::min(fns_.columns, slide_.out_count() - window);
    const std::int64_t stride = even(depth_);
    std::int16_t* lines = own + 2 * fns_.columns;
    for (std::int64_t first = 0; first < depth_; first += kPanelDepth) {
      const std::int64_t depth = std::min(kPanelDepth, depth_ - first);
      for (std::int64_t k = 0; k < depth; k += 2) {
        fill_line(images, zero, first + k, window, count, own);
        if (k + 1 < depth) {
          fill_line(images, zero, first + k + 1, window, count, own + fns_.columns);
        } else {
          std::fill_n(own + fns_.columns, count, std::int16_t{0});
        }
        fns_.interleave(own, own + fns_.columns, count, lines + k * fns_.columns);
      }
      fns_.multiply(w + group * filters * stride + first, filters, stride, lines, even(depth),
                    y + index * filters * slide_.out_count() + window, slide_.out_count(), count,
                    first > 0);
    }
  }

  /// One filter's image, tap by tap.
  void run_filter(const std::byte* x, const std::int16_t* w, std::int32_t zero, std::int64_t index,
                  std::int32_t* y) const {
    const std::int64_t batch = index / filters_;
    const std::int64_t filter = index % filters_;
    const std::int64_t group = filter / (filters_ / groups_);
    const std::byte* images =
        x + (batch * channels_ + group * group_channels()) * slide_.in_count();
    std::int32_t* sums = y + index * slide_.out_count();
    const std::int16_t* weights = w + filter * even(depth_);
    const std::int64_t width = slide_.out[2];
    std::fill_n(sums, slide_.out_count(), 0);
    for (std::int64_t line = 0; line < slide_.out[0] * slide_.out[1]; ++line, sums += width) {
      for (std::int64_t k = 0; k < depth_; ++k) {
        const Run run = run_of(k % slide_.taps(), line, 0, width);
        const std::byte* image = images + k / slide_.taps() * slide_.in_count();
        fns_.add_scaled(image + run.source, x_signed_, slide_.stride[2], zero, weights[k],
                        sums + run.begin, run.end - run.begin);
      }
    }
  }

  IntegerPanels fns_ = integer_panels();
  Slide slide_;
  std::int64_t batch_, channels_, filters_, groups_, depth_;
  bool x_signed_, w_signed_;
  RowZeros x_zeros_, w_zeros_;
  std::size_t place_;
  std::int64_t panels_;
  bool direct_ = false;
  int threads_ = 1;
  std::int64_t weight_bytes_ = 0;
  std::int64_t thread_bytes_ = 0;
};

std::string why_not_conv(const OpCall& call) {
  if (std::string reason = why_no_integer_product(call); !reason.empty()) return reason;
  if (call.outputs[0].shape.element_count() == 0) return "no elements";
  const auto zeros_of = [&](std::size_t place) {
    const bool present = place < call.inputs.size() && call.inputs[place].present;
    return present ? call.inputs[place].shape : Shape();
  };
  if (zeros_of(2).element_count() != 1) return "several zero points of the image";
  const Shape w_zeros = zeros_of(3);
  const std::int64_t count = w_zeros.element_count();
  if (count != 1 && (w_zeros.rank() != call.inputs[1].shape.rank() || w_zeros[0] != count)) {
    return "zero points other than one for all or for each filter";
  }
  return "";
}

}  // namespace

KernelOffer offer_conv_integer(const OpCall& call, const KernelContext& context) {
  if (std::string reason = why_not_conv(call); !reason.empty()) return {nullptr, reason};
  return {std::make_unique<ConvIntegerKernel>(call, context.threads), ""};
}

}  // namespace tilemesh::cpu::highway
