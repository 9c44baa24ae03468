#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/math.hpp"

#include "elements.hpp"
#include "tables.hpp"
#include "window.hpp"

namespace tilemesh::ops {
namespace {

void conv_form(AttributeForm& form) {
  window_form(form);
  form.integer("group", {.fallback = 1, .min = 1});
}
void conv_transpose_form(AttributeForm& form) {
  const std::size_t spatial = window_form(form);
  form.integer("group", {.fallback = 1, .min = 1});
  form.integers("output_padding", spatial, {.fallback = 0, .min = 0});
}

std::int64_t group_of(const OpCall& call) {
  return call.attributes.integer("group");
}

Window conv_window(const OpCall& call) {
  const Shape& w = call.inputs[1].shape;
  require_rank(call, 1, call.inputs[0].shape.rank());
  return window_of(call,
                   std::span(w.begin(), w.end())
                       .subspan(std::min<std::size_t>(2, static_cast<std::size_t>(w.rank()))));
}

void check_conv(const OpCall& call) {
  require_type(call, 0, Types::number);
  require_same_type(call, 0, 1);
  require_rank(call, 0, 3, true);
  require_rank(call, 1, call.inputs[0].shape.rank());
}

void check_channels(const OpCall& call, std::int64_t weight_channels, std::int64_t outputs) {
  const std::int64_t channels = call.inputs[0].shape[1];
  const std::int64_t group = group_of(call);
  if (weight_channels != channels) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("input {} has {} channels, weights {} want {} with group {}",
                            call.inputs[0].shape.to_string(), channels,
                            call.inputs[1].shape.to_string(), weight_channels, group));
  }
  if (channels % group != 0 || outputs % group != 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("group {} doesn't divide {} input and {} output channels", group,
                            channels, outputs));
  }
  if (has_input(call, 2)) {
    require_same_type(call, 0, 2);
    require_shape(call, 2, Shape{outputs}, "one bias per output channel");
  }
}

std::vector<OperandType> infer_conv(const OpCall& call) {
  check_conv(call);
  const Shape& x = call.inputs[0].shape;
  const Shape& w = call.inputs[1].shape;
  const Window window = conv_window(call);
  check_channels(call, checked_mul(w[1], group_of(call)), w[0]);
  Dims sizes{x[0], w[0]};
  for (int d = 2; d < x.rank(); ++d) {
    const auto at = static_cast<std::size_t>(3 - x.rank() + d);
    const std::int64_t padded =
        checked_add(checked_add(window.in[at], window.pads_begin[at]), window.pads_end[at]);
    const std::int64_t room = padded - extent(window, at);
    if (room < 0 && window.in[at] == 0) {  // SAME pads of an empty image
      sizes.push_back(0);
      continue;
    }
    if (room < 0) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("a kernel that spans {} doesn't fit dim {} of input {} with its pads "
                              "({} elements)",
                              extent(window, at), d, x.to_string(), padded));
    }
    sizes.push_back(room / window.strides[at] + 1);
  }
  return {rows(call.inputs[0].dtype, Shape(sizes))};
}

/// x dim 0 to output dim 0; output channels on the weights' dim; input channels as a reduction.
Factors channel_factors(const OpCall& call, int weight_out, int weight_in) {
  FactorBuilder builder(call);
  builder.share(0, 0);
  if (group_of(call) != 1) return builder.build();
  const int out = builder.add();
  builder.input(1, weight_out, out);
  builder.input(2, 0, out);
  builder.output(0, 1, out);
  // A bias would be added once for every part of the sum.
  if (!has_input(call, 2)) {
    const int in = builder.add();
    builder.input(0, 1, in);
    builder.input(1, weight_in, in);
  }
  return builder.build();
}
Factors conv_factors(const OpCall& call) {
  return channel_factors(call, 0, 1);
}
Factors conv_transpose_factors(const OpCall& call) {
  return channel_factors(call, 1, 0);
}

/// Calls `row(tap, in, out, range)` for every tap of the kernel and every pair of rows (along the
/// last spatial dim) that meet under it: window i of the row, for i in `range`, sits at out + i and
/// sees in + i * stride.
template <class Row>
void for_each_row(const Window& window, const Row& row) {
  std::int64_t tap = 0;
  for (std::int64_t a = 0; a < window.kernel[0]; ++a) {
    const TapRange outer = tap_range(window, 0, a);
    for (std::int64_t b = 0; b < window.kernel[1]; ++b) {
      const TapRange middle = tap_range(window, 1, b);
      for (std::int64_t c = 0; c < window.kernel[2]; ++c, ++tap) {
        const TapRange inner = tap_range(window, 2, c);
        for (std::int64_t z = outer.begin; z < outer.end; ++z) {
          const std::int64_t plane = outer.first + z * window.strides[0];
          for (std::int64_t y = middle.begin; y < middle.end; ++y) {
            const std::int64_t line = middle.first + y * window.strides[1];
            row(tap, (plane * window.in[1] + line) * window.in[2] + inner.first,
                (z * window.out[1] + y) * window.out[2], inner);
          }
        }
      }
    }
  }
}

/// Adds one input channel's share to an output channel's sums.
template <class T>
void add_conv(const Window& window, const T* x, const T* w, Sum<T>* sums) {
  const std::int64_t stride = window.strides[2];
  for_each_row(window, [&](std::int64_t tap, std::int64_t in, std::int64_t out, TapRange range) {
    const auto weight = static_cast<Sum<T>>(w[tap]);
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      sums[out + i] += weight * static_cast<Sum<T>>(x[in + i * stride]);
    }
  });
}

/// The same for conv_transpose: `window.in` is the result, `window.out` the operand x.
template <class T>
void add_conv_transpose(const Window& window, const T* x, const T* w, Sum<T>* sums) {
  const std::int64_t stride = window.strides[2];
  for_each_row(window, [&](std::int64_t tap, std::int64_t in, std::int64_t out, TapRange range) {
    const auto weight = static_cast<Sum<T>>(w[tap]);
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      sums[in + i * stride] += weight * static_cast<Sum<T>>(x[out + i]);
    }
  });
}

/// Both convolutions: for each output channel the sum over its group's input channels of `add`.
/// `weight_at(channel in, channel out within the group)` is the index of a kernel.
template <class T, class WeightAt, class Add>
void convolve(const OpCall& call, Inputs inputs, Outputs outputs, std::int64_t taps,
              const WeightAt& weight_at, const Add& add) {
  const Loaded<T> x(inputs[0], call.inputs[0]);
  const Loaded<T> w(inputs[1], call.inputs[1]);
  const Shape& in = call.inputs[0].shape;
  const Shape& out = call.outputs[0].shape;
  const std::int64_t group = group_of(call);
  const std::int64_t group_in = in[1] / group;
  const std::int64_t group_out = out[1] / group;
  const std::int64_t in_plane = around(in, 1).inner;
  const std::int64_t out_plane = around(out, 1).inner;
  std::vector<T> bias = zeros<T>(out[1]);
  if (has_input(call, 2)) {
    const Loaded<T> given(inputs[2], call.inputs[2]);
    std::copy(given.data(), given.data() + out[1], bias.begin());
  }
  auto y = zeros<T>(out.element_count());
  std::vector<Sum<T>> sums(static_cast<std::size_t>(out_plane));
  for (std::int64_t n = 0; n < out[0]; ++n) {
    for (std::int64_t m = 0; m < out[1]; ++m) {
      std::ranges::fill(sums, static_cast<Sum<T>>(bias[static_cast<std::size_t>(m)]));
      for (std::int64_t c = 0; c < group_in; ++c) {
        const std::int64_t channel = m / group_out * group_in + c;
        add(x.data() + (n * in[1] + channel) * in_plane,
            w.data() + weight_at(channel, m, group_in, group_out) * taps, sums.data());
      }
      std::ranges::transform(sums, y.begin() + (n * out[1] + m) * out_plane,
                             [](Sum<T> sum) { return static_cast<T>(sum); });
    }
  }
  store(y, call.outputs[0], outputs[0]);
}

void run_conv(const OpCall& call, Inputs inputs, Outputs outputs) {
  Window window = conv_window(call);
  set_out(window, call.outputs[0].shape);
  const auto weight_at = [](std::int64_t channel, std::int64_t m, std::int64_t group_in,
                            std::int64_t) {
    return m * group_in + channel % group_in;
  };
  visit_product(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    convolve<T>(call, inputs, outputs, window.kernel_count(), weight_at,
                [&](const T* x, const T* w, Sum<T>* sums) { add_conv(window, x, w, sums); });
  });
}

std::vector<OperandType> infer_conv_transpose(const OpCall& call) {
  check_conv(call);
  const Shape& x = call.inputs[0].shape;
  const Shape& w = call.inputs[1].shape;
  const Window window = conv_window(call);
  const std::int64_t channels = checked_mul(w[1], group_of(call));
  check_channels(call, w[0], channels);
  const auto spatial = static_cast<std::size_t>(x.rank() - 2);
  const auto& more = call.attributes.integers("output_padding");
  Dims sizes{x[0], channels};
  for (std::size_t d = 0; d < spatial; ++d) {
    const std::size_t at = 3 - spatial + d;
    const std::int64_t full = checked_add(
        checked_add(checked_mul(window.in[at] - 1, window.strides[at]), extent(window, at)),
        more[d]);
    const std::int64_t pads = checked_add(window.pads_begin[at], window.pads_end[at]);
    if (pads > full) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("output dim {} has {} elements before {} are cut as pads", d + 2,
                              full, pads));
    }
    sizes.push_back(full - pads);
  }
  return {rows(call.inputs[0].dtype, Shape(sizes))};
}

void run_conv_transpose(const OpCall& call, Inputs inputs, Outputs outputs) {
  // The transposed walk: windows slide over the result, one for each element of x.
  Window window = conv_window(call);
  window.out = window.in;
  const Shape& y = call.outputs[0].shape;
  for (int d = 2; d < y.rank(); ++d) {
    window.in[static_cast<std::size_t>(3 - y.rank() + d)] = y[d];
  }
  const auto weight_at = [](std::int64_t channel, std::int64_t m, std::int64_t,
                            std::int64_t group_out) {
    return channel * group_out + m % group_out;
  };
  visit_product(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    convolve<T>(
        call, inputs, outputs, window.kernel_count(), weight_at,
        [&](const T* x, const T* w, Sum<T>* sums) { add_conv_transpose(window, x, w, sums); });
  });
}

constexpr OpDef kOps[] = {
    {.name = "conv",
     .min_inputs = 2,
     .max_inputs = 3,
     .canonical = conv_form,
     .infer = infer_conv,
     .factors = conv_factors,
     .reference = run_conv,
     .takes_epilogue = true},
    {.name = "conv_transpose",
     .min_inputs = 2,
     .max_inputs = 3,
     .canonical = conv_transpose_form,
     .infer = infer_conv_transpose,
     .factors = conv_transpose_factors,
     .reference = run_conv_transpose,
     .takes_epilogue = true},
};

}  // namespace

std::span<const OpDef> conv_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
