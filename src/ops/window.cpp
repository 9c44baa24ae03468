#include "window.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/math.hpp"

namespace tilemesh::ops {

std::size_t window_form(AttributeForm& form) {
  const Shape& x = form.call().inputs[0].shape;
  if (x.rank() < 3 || x.rank() > 5) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("input 0 wants [N, C, 1 to 3 spatial dims], got {}", x.to_string()));
  }
  const auto spatial = static_cast<std::size_t>(x.rank() - 2);
  form.integers("strides", spatial, {.fallback = 1, .min = 1});
  form.integers("dilations", spatial, {.fallback = 1, .min = 1});
  form.integers("pads", 2 * spatial, {.fallback = 0, .min = 0});
  return spatial;
}

Window window_of(const OpCall& call, std::span<const std::int64_t> kernel) {
  const Shape& x = call.inputs[0].shape;
  const auto spatial = static_cast<std::size_t>(x.rank() - 2);
  if (kernel.size() != spatial) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a kernel of {} spatial dims doesn't fit input {}", kernel.size(),
                            x.to_string()));
  }
  const auto& strides = call.attributes.integers("strides");
  const auto& dilations = call.attributes.integers("dilations");
  const auto& pads = call.attributes.integers("pads");
  Window window;
  for (std::size_t d = 0; d < spatial; ++d) {
    if (kernel[d] < 1) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("a kernel wants sizes of at least 1, got {}", kernel[d]));
    }
    const std::size_t to = 3 - spatial + d;
    window.in[to] = x[static_cast<int>(d) + 2];
    window.kernel[to] = kernel[d];
    window.strides[to] = strides[d];
    window.dilations[to] = dilations[d];
    window.pads_begin[to] = pads[d];
    window.pads_end[to] = pads[spatial + d];
  }
  return window;
}

void set_out(Window& window, const Shape& output) {
  for (int d = 2; d < output.rank(); ++d) {
    window.out[static_cast<std::size_t>(3 - output.rank() + d)] = output[d];
  }
}

std::int64_t extent(const Window& window, std::size_t dim) {
  return checked_add(checked_mul(window.kernel[dim] - 1, window.dilations[dim]), 1);
}

TapRange tap_range(const Window& window, std::size_t dim, std::int64_t tap) {
  TapRange range;
  const std::int64_t stride = window.strides[dim];
  range.first = tap * window.dilations[dim] - window.pads_begin[dim];
  const std::int64_t room = window.in[dim] - range.first;  // indices from window 0 to the end
  // Quotients rounded up in a form that no stride makes overflow.
  range.begin = range.first >= 0 ? 0 : (-range.first - 1) / stride + 1;
  range.end = std::min(window.out[dim], room <= 0 ? 0 : (room - 1) / stride + 1);
  range.begin = std::min(range.begin, range.end);
  return range;
}

}  // namespace tilemesh::ops
