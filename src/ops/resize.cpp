#include "tilemesh/ops/resize.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "attribute_form.hpp"
#include "elements.hpp"
#include "resize_words.hpp"
#include "tables.hpp"

namespace tilemesh::ops {
namespace {

/// The scales that lead to the sizes, for a call that states none.
std::vector<double> scales_to(const Shape& in, const std::vector<std::int64_t>& sizes) {
  std::vector<double> scales;
  for (int d = 0; d < in.rank(); ++d) {
    const auto size = static_cast<double>(sizes[static_cast<std::size_t>(d)]);
    scales.push_back(in[d] == 0 ? 1 : size / static_cast<double>(in[d]));
  }
  return scales;
}

void resize_form(AttributeForm& form) {
  const auto rank = static_cast<std::size_t>(form.rank());
  form.choice("mode", kResizeModes);
  form.choice("coordinate", kResizeCoordinates);
  form.choice("nearest_mode", kResizeRoundings);
  form.number("cubic_coeff_a", -0.75);
  form.flag("exclude_outside", false);
  form.flag("antialias", false);
  form.number("extrapolation_value", 0);
  const std::vector<std::int64_t> sizes = form.integers("sizes", rank, {.min = 0});
  form.numbers("scales", scales_to(form.call().inputs[0].shape, sizes));
  std::vector<double> whole(rank, 0);
  whole.resize(2 * rank, 1);
  form.numbers("roi", std::move(whole));
}

/// True if no number of the attributes can lead out of the range of indices.
bool plausible(const Attributes& attributes) {
  constexpr double kMost = 1 << 20;
  const auto small = [](double x) {
    return std::abs(x) <= kMost;
  };
  return std::ranges::all_of(attributes.numbers("roi"), small) &&
         small(attributes.number("cubic_coeff_a"));
}

/// True if `out` may be what a scale makes of `in`, whichever way it was rounded.
bool fits_scale(const Attributes& attributes, double scale, std::int64_t in, std::int64_t out) {
  if (out == 0 || in == 0) return out == 0;
  const double scaled = scale * static_cast<double>(in);
  if (attributes.text("coordinate") == "tf_crop_and_resize") return scaled > 0.4;
  const auto wanted = static_cast<double>(out);
  return scaled > wanted - 0.6 && scaled < wanted + 1.1;
}

std::vector<OperandType> infer_resize(const OpCall& call) {
  require_type(call, 0, Types::number);
  const Shape& in = call.inputs[0].shape;
  const Shape out(std::span<const std::int64_t>(call.attributes.integers("sizes")));
  const std::vector<double>& scales = call.attributes.numbers("scales");
  bool fits = plausible(call.attributes);
  for (int d = 0; fits && d < in.rank(); ++d) {
    fits = fits_scale(call.attributes, scales[static_cast<std::size_t>(d)], in[d], out[d]);
  }
  if (!fits) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("can't resize {} to {} by scales {}", in.to_string(), out.to_string(),
                            fmt::join(scales, ",")));
  }
  return {rows(call.inputs[0].dtype, out)};
}

std::vector<ResizeAxis> axes_of(const OpCall& call) {
  std::vector<ResizeAxis> axes;
  for (int d = 0; d < call.inputs[0].shape.rank(); ++d) {
    axes.emplace_back(call, d);
  }
  return axes;
}

Factors resize_factors(const OpCall& call) {
  FactorBuilder builder(call);
  for (int d = 0; d < call.inputs[0].shape.rank(); ++d) {
    if (ResizeAxis(call, d).untouched()) builder.share(d, d);
  }
  return builder.build();
}

/// What the ways of interpolating differ in.
struct Interpolation {
  bool cubic = false;
  double cubic_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;

  explicit Interpolation(const Attributes& attributes)
      : cubic(attributes.text("mode") == "cubic"),
        cubic_a(attributes.number("cubic_coeff_a")),
        exclude_outside(attributes.integer("exclude_outside") != 0),
        antialias(attributes.integer("antialias") != 0) {}

  /// The interpolation kernel at a distance from its middle.
  double at(double distance) const {
    const double x = std::abs(distance);
    if (!cubic) return std::max(0.0, 1 - x);
    const double a = cubic_a;
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
    return 0;
  }
};

/// One output element along one dim: which input elements, with which weights.
struct Taps {
  std::vector<std::int64_t> indices;
  std::vector<double> weights;
};

/// Writes the taps of output element `i` into `taps`, whose memory is used again.
void find_taps(const Interpolation& way, const ResizeAxis& axis, std::int64_t i, Taps& taps) {
  taps.indices.clear();
  taps.weights.clear();
  const double position = axis.position(i);
  const double middle = std::floor(position);
  // An antialiasing kernel grows to the size of an output element.
  const double shrink = way.antialias ? std::min(axis.scale(), 1.0) : 1;
  const double reach = way.cubic ? 2 : 1;
  const auto begin = static_cast<std::int64_t>(std::floor(-reach / shrink)) + 1;
  double sum = 0;
  for (std::int64_t k = begin; k < 2 - begin; ++k) {
    const std::int64_t index = static_cast<std::int64_t>(middle) + k;
    double weight = way.at(shrink * (static_cast<double>(k) - (position - middle)));
    if (way.exclude_outside && (index < 0 || index >= axis.in())) weight = 0;
    taps.indices.push_back(std::clamp<std::int64_t>(index, 0, axis.in() - 1));
    taps.weights.push_back(weight);
    sum += weight;
  }
  if (way.antialias || way.exclude_outside) {
    for (double& weight : taps.weights) {
      weight /= sum;
    }
  }
}

void resize_nearest(const OpCall& call, Inputs inputs, Outputs outputs,
                    const std::vector<ResizeAxis>& axes) {
  const Dims strides = row_major_strides(call.inputs[0].shape);
  std::vector<std::vector<std::int64_t>> offsets;  // per dim and output index; -1: outside
  for (std::size_t d = 0; d < axes.size(); ++d) {
    std::vector<std::int64_t>& own = offsets.emplace_back();
    own.reserve(static_cast<std::size_t>(axes[d].out()));
    for (std::int64_t i = 0; i < axes[d].out(); ++i) {
      const double position = axes[d].untouched() ? static_cast<double>(i) : axes[d].position(i);
      own.push_back(axes[d].is_outside(position) ? -1 : axes[d].nearest(position) * strides[d]);
    }
  }
  std::byte fill[8];
  store(std::vector<double>{call.attributes.number("extrapolation_value")},
        rows(call.outputs[0].dtype, Shape{}), fill);
  pick(inputs[0], fill, call.outputs[0], outputs[0], [&](const Dims& index) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < index.size(); ++d) {
      const std::int64_t own = offsets[d][static_cast<std::size_t>(index[d])];
      if (own < 0) return std::int64_t{-1};
      offset += own;
    }
    return offset;
  });
}

/// `values` of `shape` resampled along one dim.
std::vector<double> resampled(const std::vector<double>& values, const Shape& shape, int dim,
                              const Interpolation& way, const ResizeAxis& axis) {
  const AxisView view = around(shape, dim);
  auto result = zeros<double>(view.outer * axis.out() * view.inner);
  Taps taps;
  for (std::int64_t i = 0; i < axis.out(); ++i) {
    find_taps(way, axis, i, taps);
    for (std::int64_t o = 0; o < view.outer; ++o) {
      double* to = result.data() + (o * axis.out() + i) * view.inner;
      for (std::size_t k = 0; k < taps.indices.size(); ++k) {
        if (taps.weights[k] == 0) continue;  // an infinity there has no part in it
        const double* from = values.data() + (o * view.size + taps.indices[k]) * view.inner;
        for (std::int64_t j = 0; j < view.inner; ++j) {
          to[j] += taps.weights[k] * from[j];
        }
      }
    }
  }
  return result;
}

/// The two input elements along a dim that an output element lies between, as offsets.
struct Between {
  std::int64_t low = 0, high = 0;
  float low_weight = 1, high_weight = 0;
};

Between between(const ResizeAxis& axis, std::int64_t i, std::int64_t stride) {
  const std::int64_t last = axis.in() - 1;
  const double position = std::clamp(axis.position(i), 0.0, static_cast<double>(last));
  const auto low = static_cast<std::int64_t>(position);
  if (low == last) return {low * stride, low * stride, 0.5F, 0.5F};
  const auto weight = static_cast<float>(position - static_cast<double>(low));
  return {low * stride, (low + 1) * stride, 1 - weight, weight};
}

/// The sum over the corners of a cell, the last dim's neighbours first.
float corner_sum(const Loaded<double>& x, std::int64_t offset, std::span<const Between> dims) {
  float sum = 0;
  for (std::size_t corner = 0; corner < std::size_t{1} << dims.size(); ++corner) {
    std::int64_t at = offset;
    float weight = 1;
    for (std::size_t k = 0; k < dims.size(); ++k) {
      const Between& dim = dims[dims.size() - 1 - k];
      const bool high = (corner >> k & 1) != 0;
      at += high ? dim.high : dim.low;
      weight *= high ? dim.high_weight : dim.low_weight;
    }
    sum += weight * static_cast<float>(x[at]);
  }
  return sum;
}

/// Linear interpolation as onnxruntime does that of integers: in f32, so that a sum that is whole
/// but for rounding is whole.
std::vector<double> interpolated_in_f32(const Loaded<double>& x, const Shape& in, const Shape& out,
                                        const std::vector<ResizeAxis>& axes) {
  const Dims strides = row_major_strides(in);
  auto values = zeros<double>(out.element_count());
  std::vector<Between> dims;
  Dims index = zero_index(out);
  for (double& value : values) {
    std::int64_t offset = 0;
    dims.clear();
    for (std::size_t d = 0; d < axes.size(); ++d) {
      if (axes[d].untouched()) {
        offset += index[d] * strides[d];
      } else {
        dims.push_back(between(axes[d], index[d], strides[d]));
      }
    }
    value = double{corner_sum(x, offset, dims)};
    next_index(index, out);
  }
  return values;
}

void extrapolate(const OpCall& call, const std::vector<ResizeAxis>& axes,
                 std::vector<double>& values) {
  const Shape& out = call.outputs[0].shape;
  const double extrapolation = call.attributes.number("extrapolation_value");
  Dims index = zero_index(out);
  for (double& value : values) {
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (axes[d].is_outside(axes[d].position(index[d]))) value = extrapolation;
    }
    next_index(index, out);
  }
}

std::vector<double> resampled_by_dims(const Loaded<double>& x, Shape shape,
                                      const std::vector<ResizeAxis>& axes,
                                      const Interpolation& way) {
  std::vector<double> values(x.data(), x.data() + shape.element_count());
  // What shrinks first, so that no step is larger than both the input and the output.
  for (const bool shrinks : {true, false}) {
    for (int d = 0; d < shape.rank(); ++d) {
      const ResizeAxis& axis = axes[static_cast<std::size_t>(d)];
      if (axis.untouched() || (axis.out() < axis.in()) != shrinks) continue;
      values = resampled(values, shape, d, way, axis);
      shape = shape.with(d, axis.out());
    }
  }
  return values;
}

void run_resize(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Shape& out = call.outputs[0].shape;
  if (out.element_count() == 0) return;
  const std::vector<ResizeAxis> axes = axes_of(call);
  if (call.attributes.text("mode") == "nearest") {
    resize_nearest(call, inputs, outputs, axes);
    return;
  }
  const Interpolation way(call.attributes);
  const Loaded<double> x(inputs[0], call.inputs[0]);
  const DType dtype = call.inputs[0].dtype;
  std::vector<double> values;
  if (is_integer(dtype) && size_of(dtype) <= 4 && !way.cubic && !way.antialias) {
    values = interpolated_in_f32(x, call.inputs[0].shape, out, axes);
  } else {
    values = resampled_by_dims(x, call.inputs[0].shape, axes, way);
    if (is_integer(dtype)) {
      std::ranges::transform(values, values.begin(), [](double v) { return std::nearbyint(v); });
    }
  }
  if (call.attributes.text("coordinate") == "tf_crop_and_resize") extrapolate(call, axes, values);
  store(values, call.outputs[0], outputs[0]);
}

constexpr OpDef kOps[] = {
    {.name = "resize",
     .canonical = resize_form,
     .infer = infer_resize,
     .factors = resize_factors,
     .reference = run_resize},
};

}  // namespace

std::span<const OpDef> resize_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
