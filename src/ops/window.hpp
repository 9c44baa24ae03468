#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "attribute_form.hpp"
#include "support.hpp"

namespace tilemesh::ops {

/// Windows that slide over spatial dims: what conv and pool have in common. Fewer than three
/// spatial dims are filled up in front with dims of one element.
struct Window {
  std::array<std::int64_t, 3> in{1, 1, 1};
  std::array<std::int64_t, 3> out{1, 1, 1};
  std::array<std::int64_t, 3> kernel{1, 1, 1};
  std::array<std::int64_t, 3> strides{1, 1, 1};
  std::array<std::int64_t, 3> dilations{1, 1, 1};
  std::array<std::int64_t, 3> pads_begin{0, 0, 0};
  std::array<std::int64_t, 3> pads_end{0, 0, 0};

  std::int64_t in_count() const { return in[0] * in[1] * in[2]; }
  std::int64_t out_count() const { return out[0] * out[1] * out[2]; }
  std::int64_t kernel_count() const { return kernel[0] * kernel[1] * kernel[2]; }
};

/// Names strides, dilations and pads of an op whose input 0 is [N, C, spatial...] with one to three
/// spatial dims; the number of these.
std::size_t window_form(AttributeForm& form);
/// The same as numbers; `kernel` is the spatial kernel, `out` stays 1.
Window window_of(const OpCall& call, std::span<const std::int64_t> kernel);
/// Sets `out` to the output's spatial sizes.
void set_out(Window& window, const Shape& output);
/// Elements from the first to the last tap of a kernel, both included.
std::int64_t extent(const Window& window, std::size_t dim);

/// The indices [begin, end) of windows whose tap `tap` along `dim` lies inside the input, and the
/// input's index at window 0 (which may be outside).
struct TapRange {
  std::int64_t begin = 0, end = 0, first = 0;
};
TapRange tap_range(const Window& window, std::size_t dim, std::int64_t tap);

}  // namespace tilemesh::ops
