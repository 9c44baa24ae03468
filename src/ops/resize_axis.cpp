#include <algorithm>
#include <cmath>

#include "tilemesh/ops/resize.hpp"

#include "resize_words.hpp"

namespace tilemesh::ops {
namespace {

/// The place of a text attribute in the list of words that it is one of.
template <class Enum>
Enum word(const OpCall& call, std::string_view name, std::span<const std::string_view> words) {
  return static_cast<Enum>(std::ranges::find(words, call.attributes.text(name)) - words.begin());
}

}  // namespace

ResizeAxis::ResizeAxis(const OpCall& call, int dim)
    : coordinate_(word<Coordinate>(call, "coordinate", kResizeCoordinates)),
      rounding_(word<Rounding>(call, "nearest_mode", kResizeRoundings)),
      in_(call.inputs[0].shape[dim]),
      out_(call.outputs[0].shape[dim]) {
  const std::vector<double>& scales = call.attributes.numbers("scales");
  const std::vector<double>& roi = call.attributes.numbers("roi");
  const auto d = static_cast<std::size_t>(dim);
  scale_ = scales[d];
  start_ = roi[d];
  end_ = roi[scales.size() + d];
  untouched_ = scale_ == 1 && in_ == out_ && coordinate_ != Coordinate::tf_crop_and_resize;
}

template <class Float>
Float ResizeAxis::position_in(std::int64_t i) const {
  constexpr auto kHalf = Float{0.5};
  const auto x = static_cast<Float>(i);
  const auto scale = static_cast<Float>(scale_);
  const auto in_size = static_cast<Float>(in_);
  const auto out_size = static_cast<Float>(out_);
  const Float half_pixel = (x + kHalf) / scale - kHalf;
  switch (coordinate_) {
    case Coordinate::half_pixel: return half_pixel;
    case Coordinate::half_pixel_symmetric:
      return in_size / 2 * (1 - out_size / (scale * in_size)) + (x + kHalf) / scale - kHalf;
    case Coordinate::pytorch_half_pixel: return out_ > 1 ? half_pixel : Float{0};
    case Coordinate::align_corners: {
      // ONNX means the size before it is rounded to whole elements.
      const Float scaled = scale * in_size;
      const bool whole = std::abs(scaled - out_size) < static_cast<Float>(1e-5) * out_size;
      const Float exact_size = whole ? out_size : scaled;
      return exact_size > 1 ? x * (in_size - 1) / (exact_size - 1) : Float{0};
    }
    case Coordinate::asymmetric: return x / scale;
    case Coordinate::tf_half_pixel_for_nn: return (x + kHalf) / scale;
    case Coordinate::tf_crop_and_resize: break;
  }
  const auto start = static_cast<Float>(start_);
  const auto end = static_cast<Float>(end_);
  if (out_ <= 1) return kHalf * (start + end) * (in_size - 1);
  return start * (in_size - 1) + x * (end - start) * (in_size - 1) / (out_size - 1);
}

double ResizeAxis::position(std::int64_t i) const {
  constexpr std::int64_t kExact = std::int64_t{1} << 24;
  if (in_ > kExact || out_ > kExact) return position_in<double>(i);
  return double{position_in<float>(i)};
}

std::int64_t ResizeAxis::nearest(double position) const {
  double rounded = position;
  switch (rounding_) {
    case Rounding::prefer_floor: rounded = std::ceil(position - 0.5); break;
    case Rounding::prefer_ceil: rounded = std::floor(position + 0.5); break;
    case Rounding::floor: rounded = std::floor(position); break;
    case Rounding::ceil: rounded = std::ceil(position); break;
    case Rounding::floor_up_ceil_down:
      rounded = scale_ < 1 ? std::ceil(position) : std::floor(position);
      break;
  }
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(rounded), 0, in_ - 1);
}

bool ResizeAxis::is_outside(double position) const {
  return coordinate_ == Coordinate::tf_crop_and_resize &&
         (position < 0 || position > static_cast<double>(in_ - 1));
}

}  // namespace tilemesh::ops
