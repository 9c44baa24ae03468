#include "tilemesh/ops/resize.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

#include "offers.hpp"
#include "parallel.hpp"
#include "resize_math.hpp"

/// resize of the last one or two dims, nearest and linear, where pixels lie side by side in rows:
/// row-major (a pixel is one element), channels last, or channels in blocks.
namespace tilemesh::cpu::highway {
namespace {

/// An image as [planes, height, width, pixel].
struct Image {
  std::int64_t planes = 1, height = 1, width = 1, pixel = 1;
};

/// A neighbour of weight 0 isn't read, and may be infinite: then both are the other one, and the
/// weight is 0.
Tap tap_between(std::int32_t low, std::int32_t high, float weight) {
  if (weight == 1) return {high, high, 0};
  return {low, high, low == high ? 0 : weight};
}

/// One tap per output index of a dim.
std::vector<Tap> taps_of(const OpCall& call, int dim) {
  const ops::ResizeAxis axis(call, dim);
  const bool nearest = call.attributes.text("mode") == "nearest";
  const auto clamped = [&](double index) {
    return static_cast<std::int32_t>(std::clamp(index, 0.0, static_cast<double>(axis.in() - 1)));
  };
  std::vector<Tap> taps;
  taps.reserve(static_cast<std::size_t>(axis.out()));
  for (std::int64_t i = 0; i < axis.out(); ++i) {
    const double position = axis.position(i);
    if (nearest) {
      const auto index = static_cast<std::int32_t>(axis.nearest(position));
      taps.push_back({index, index, 0});
    } else {
      const double low = std::floor(position);
      taps.push_back(
          tap_between(clamped(low), clamped(low + 1), static_cast<float>(position - low)));
    }
  }
  return taps;
}

/// Copies pixels, and whole rows where they repeat.
class NearestKernel final : public Kernel {
 public:
  NearestKernel(const Image& in, const Image& out, std::vector<Tap> rows, std::vector<Tap> columns,
                std::int64_t element_bytes, int threads)
      : in_(in),
        out_(out),
        rows_(std::move(rows)),
        columns_(std::move(columns)),
        pixel_bytes_(in.pixel * element_bytes),
        threads_(threads) {}

  void run(std::byte* const* operands, std::byte* /*scratch*/) override {
    const std::int64_t in_row = in_.width * pixel_bytes_;
    const std::int64_t out_row = out_.width * pixel_bytes_;
    parallel_for(threads_, out_.planes, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t plane = begin; plane < end; ++plane) {
        const std::byte* from = operands[0] + plane * in_.height * in_row;
        std::byte* to = operands[1] + plane * out_.height * out_row;
        for (std::size_t y = 0; y < rows_.size(); ++y, to += out_row) {
          if (y > 0 && rows_[y].low == rows_[y - 1].low) {
            std::memcpy(to, to - out_row, static_cast<std::size_t>(out_row));
          } else {
            pick(from + rows_[y].low * in_row, to);
          }
        }
      }
    });
  }
  int threads() const override { return threads_; }
  std::string_view name() const override { return "highway:resize"; }

 private:
  template <std::size_t kBytes>
  void pick_fixed(const std::byte* from, std::byte* to) const {
    for (const Tap& tap : columns_) {
      std::memcpy(to, from + tap.low * static_cast<std::int64_t>(kBytes), kBytes);
      to += kBytes;
    }
  }
  void pick(const std::byte* from, std::byte* to) const {
    switch (pixel_bytes_) {
      case 1: return pick_fixed<1>(from, to);
      case 2: return pick_fixed<2>(from, to);
      case 4: return pick_fixed<4>(from, to);
      case 8: return pick_fixed<8>(from, to);
      case 32: return pick_fixed<32>(from, to);
      case 64: return pick_fixed<64>(from, to);
      default: break;
    }
    for (const Tap& tap : columns_) {
      std::memcpy(to, from + tap.low * pixel_bytes_, static_cast<std::size_t>(pixel_bytes_));
      to += pixel_bytes_;
    }
  }

  Image in_;
  Image out_;
  std::vector<Tap> rows_;
  std::vector<Tap> columns_;
  std::int64_t pixel_bytes_;
  int threads_;
};

/// True if the side stays as it is.
bool stays(std::span<const Tap> taps, std::int64_t size) {
  return std::ssize(taps) == size &&
         std::ranges::all_of(taps, [](const Tap& tap) { return tap.weight == 0; });
}

/// Interpolates along rows into two buffers, which serve all output rows between them.
class LinearKernel final : public Kernel {
 public:
  LinearKernel(const Image& in, const Image& out, std::vector<Tap> rows, std::vector<Tap> columns,
               int threads)
      : in_(in),
        out_(out),
        rows_(std::move(rows)),
        columns_(std::move(columns)),
        threads_(threads),
        rows_stay_(stays(rows_, in.height)),
        columns_stay_(stays(columns_, in.width)),
        row_elements_(round_up(out.width * out.pixel, std::int64_t{16})) {}

  std::int64_t scratch_bytes() const override { return threads_ * 2 * row_elements_ * 4; }
  void run(std::byte* const* operands, std::byte* scratch) override {
    const auto* x = reinterpret_cast<const float*>(operands[0]);
    auto* y = reinterpret_cast<float*>(operands[1]);
    parallel_for(threads_, out_.planes, [&](int thread, std::int64_t begin, std::int64_t end) {
      float* buffers = reinterpret_cast<float*>(scratch) + thread * 2 * row_elements_;
      for (std::int64_t plane = begin; plane < end; ++plane) {
        run_plane(x + plane * in_.height * in_.width * in_.pixel,
                  y + plane * out_.height * out_.width * out_.pixel, buffers);
      }
    });
  }
  int threads() const override { return threads_; }
  std::string_view name() const override { return "highway:resize"; }

 private:
  void run_plane(const float* x, float* y, float* buffers) const {
    const std::int64_t out_row = out_.width * out_.pixel;
    std::array<std::int32_t, 2> held{-1, -1};  // the input row in each buffer
    const auto row_of = [&](std::int32_t row, std::int32_t keep) {
      for (std::size_t k = 0; k < 2; ++k) {
        if (held[k] == row) return buffers + static_cast<std::int64_t>(k) * row_elements_;
      }
      const std::size_t k = held[0] == keep ? 1 : 0;
      held[k] = row;
      float* buffer = buffers + static_cast<std::int64_t>(k) * row_elements_;
      interpolate_row(x, row, buffer);
      return buffer;
    };
    for (const Tap& tap : rows_) {
      if (rows_stay_) {
        interpolate_row(x, tap.low, y);
        y += out_row;
        continue;
      }
      const float* low = row_of(tap.low, tap.high);
      const float* high = row_of(tap.high, tap.low);
      fns_.between_rows(low, high, tap.weight, out_row, y);
      y += out_row;
    }
  }

  void interpolate_row(const float* x, std::int32_t row, float* to) const {
    const float* from = x + row * in_.width * in_.pixel;
    if (columns_stay_) {
      std::copy_n(from, in_.width * in_.pixel, to);
    } else {
      fns_.along_row(from, columns_.data(), out_.width, out_.pixel, to);
    }
  }

  Image in_;
  Image out_;
  std::vector<Tap> rows_;
  std::vector<Tap> columns_;
  int threads_;
  bool rows_stay_;
  bool columns_stay_;
  std::int64_t row_elements_;
  ResizeFns fns_ = resize_fns();
};

/// The operand as an image; nothing if its layout isn't one of those covered.
std::optional<Image> image_of(const OperandType& type) {
  const int rank = type.shape.rank();
  Image image{.width = type.shape[rank - 1]};
  const int planes = rank >= 4 ? rank - 2 : rank - 1;
  if (planes == rank - 2) image.height = type.shape[rank - 2];
  const auto multiply = [&](int first, int last) {
    for (int d = first; d < last; ++d) {
      image.planes *= type.shape[d];
    }
  };
  if (type.layout.is_rows()) {
    multiply(0, planes);
    return image;
  }
  if (rank < 3 || planes != 2) return std::nullopt;
  if (type.layout == Layout::channels_last(rank)) {
    multiply(0, 1);
    image.pixel = type.shape[1];
    return image;
  }
  const auto& blocks = type.layout.blocks();
  if (blocks.size() != 1 || type.layout != Layout::blocked(1, blocks[0].size)) return std::nullopt;
  image.planes = type.shape[0] * ceil_div<std::int64_t>(type.shape[1], blocks[0].size);
  image.pixel = blocks[0].size;
  return image;
}

/// Sides of images are far below.
constexpr std::int64_t kMostTaps = std::int64_t{1} << 22;

/// Empty, or why the call isn't covered.
std::string why_not_resize(const OpCall& call, const std::vector<double>& scales) {
  if (std::string reason = why_not(call); !reason.empty()) return reason;
  const OperandType& in = call.inputs[0];
  const OperandType& out = call.outputs[0];
  if (in.layout != out.layout) return "a change of layout";
  if (in.shape.rank() < 2 || in.shape.element_count() == 0) return "no image";
  const std::string& mode = call.attributes.text("mode");
  if (mode == "linear" && in.dtype != DType::f32) return "interpolation of other than f32";
  if (mode != "linear" && mode != "nearest") return "mode " + mode;
  if (call.attributes.integer("antialias") != 0) return "antialiasing";
  if (call.attributes.integer("exclude_outside") != 0) return "excluded borders";
  const int first = in.shape.rank() >= 4 ? in.shape.rank() - 2 : in.shape.rank() - 1;
  for (int d = 0; d < first; ++d) {
    if (in.shape[d] != out.shape[d] || scales[static_cast<std::size_t>(d)] != 1) {
      return "a change of other dims than the last two";
    }
  }
  for (int d = first; d < in.shape.rank(); ++d) {
    if (in.shape[d] > std::numeric_limits<std::int32_t>::max()) return "too large a dim";
    if (out.shape[d] > kMostTaps) {
      return fmt::format("a table of {} entries for dim {}, the most is {}", out.shape[d], d,
                         kMostTaps);
    }
  }
  if (call.attributes.text("coordinate") == "tf_crop_and_resize") return "a region of interest";
  return out.shape.element_count() == 0 ? "no image" : "";
}

}  // namespace

KernelOffer offer_resize(const OpCall& call, const KernelContext& context) {
  const std::vector<double>& scales = call.attributes.numbers("scales");
  if (std::string reason = why_not_resize(call, scales); !reason.empty()) return {nullptr, reason};
  const std::optional<Image> in = image_of(call.inputs[0]);
  const std::optional<Image> out = image_of(call.outputs[0]);
  if (!in || !out) return {nullptr, "a layout without rows of pixels"};
  const int rank = call.inputs[0].shape.rank();
  std::vector<Tap> columns = taps_of(call, rank - 1);
  std::vector<Tap> rows = {Tap{}};
  if (rank >= 4) rows = taps_of(call, rank - 2);
  const std::int64_t bytes = call.outputs[0].bytes();
  const int threads = threads_for(static_cast<double>(bytes) * 0.1, context.threads);
  if (call.attributes.text("mode") == "nearest") {
    return {std::make_unique<NearestKernel>(*in, *out, std::move(rows), std::move(columns),
                                            size_of(call.outputs[0].dtype), threads),
            ""};
  }
  return {std::make_unique<LinearKernel>(*in, *out, std::move(rows), std::move(columns), threads),
          ""};
}

}  // namespace tilemesh::cpu::highway
