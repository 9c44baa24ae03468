#pragma once

#include <cstdint>

#include "tilemesh/ops/op.hpp"

namespace tilemesh::ops {

/// How a resize reads one of its dims: ONNX Resize 19 treats every dim by itself. A value.
class ResizeAxis {
 public:
  /// Of a call in canonical form whose outputs are known.
  ResizeAxis(const OpCall& call, int dim);

  std::int64_t in() const { return in_; }
  std::int64_t out() const { return out_; }
  double scale() const { return scale_; }
  /// True if the dim comes out as it goes in.
  bool untouched() const { return untouched_; }
  /// Where element `i` of the output lies in the input, in elements; it may be outside. Computed in
  /// f32, as ONNX's scales are (docs/onnx.md), where that holds all indices.
  double position(std::int64_t i) const;
  /// The input element that stands for a position, by the call's way of rounding.
  std::int64_t nearest(double position) const;
  /// True if the output takes the extrapolation value there.
  bool is_outside(double position) const;

 private:
  enum class Coordinate {
    half_pixel,
    half_pixel_symmetric,
    pytorch_half_pixel,
    align_corners,
    asymmetric,
    tf_half_pixel_for_nn,
    tf_crop_and_resize
  };
  enum class Rounding { prefer_floor, prefer_ceil, floor, ceil, floor_up_ceil_down };

  template <class Float>
  Float position_in(std::int64_t i) const;

  Coordinate coordinate_ = Coordinate::half_pixel;
  Rounding rounding_ = Rounding::prefer_floor;
  std::int64_t in_ = 0;
  std::int64_t out_ = 0;
  double scale_ = 1;
  double start_ = 0, end_ = 1;  // of the region of interest
  bool untouched_ = false;
};

}  // namespace tilemesh::ops
