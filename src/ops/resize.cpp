#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "elements.hpp"
#include "tables.hpp"

/// ONNX Resize 19: every dim is resampled by itself, so the op is one table of taps per dim.
namespace tilemesh::ops {
namespace {

constexpr std::string_view kCoordinates[] = {"half_pixel",         "half_pixel_symmetric",
                                             "pytorch_half_pixel", "align_corners",
                                             "asymmetric",         "tf_crop_and_resize"};
enum class Coordinate {
  half_pixel,
  half_pixel_symmetric,
  pytorch_half_pixel,
  align_corners,
  asymmetric,
  tf_crop_and_resize
};

constexpr std::string_view kRoundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                           "ceil"};
enum class Rounding { prefer_floor, prefer_ceil, floor, ceil };

constexpr std::string_view kModes[] = {"nearest", "linear", "cubic"};
enum class Mode { nearest, linear, cubic };

/// The place of a text attribute in a list of words.
template <class Enum, std::size_t N>
Enum word(const OpCall& call, std::string_view name, const std::string_view (&words)[N],
          std::string_view fallback) {
  const std::string text = call.attributes.text_or(name, fallback);
  const auto at = std::ranges::find(words, text);
  if (at != std::end(words)) return static_cast<Enum>(at - words);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("attribute \"{}\" wants one of {}, got \"{}\"", name,
                          fmt::join(words, ", "), text));
}

struct Options {
  Mode mode = Mode::nearest;
  Coordinate coordinate = Coordinate::half_pixel;
  Rounding rounding = Rounding::prefer_floor;
  double cubic_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
  double extrapolation = 0;
  std::vector<double> scales;  // one per dim
  std::vector<double> roi;     // starts, then ends
};

void require_numbers(std::string_view name, const std::vector<double>& values, std::size_t count) {
  if (values.size() == count) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("attribute \"{}\" wants {} numbers, got {}", name, count, values.size()));
}

Options options_of(const OpCall& call) {
  const Attributes& attributes = call.attributes;
  const auto rank = static_cast<std::size_t>(call.inputs[0].shape.rank());
  Options options{
      .mode = word<Mode>(call, "mode", kModes, "nearest"),
      .coordinate = word<Coordinate>(call, "coordinate", kCoordinates, "half_pixel"),
      .rounding = word<Rounding>(call, "nearest_mode", kRoundings, "round_prefer_floor"),
      .cubic_a = attributes.number_or("cubic_coeff_a", -0.75),
      .exclude_outside = attributes.integer_or("exclude_outside", 0) != 0,
      .antialias = attributes.integer_or("antialias", 0) != 0,
      .extrapolation = attributes.number_or("extrapolation_value", 0),
      .scales = {},
      .roi = {},
  };
  if (attributes.has("scales")) options.scales = attributes.numbers("scales");
  if (options.scales.empty()) {
    const std::vector<std::int64_t>& sizes = attributes.integers("sizes");
    for (std::size_t d = 0; d < std::min(rank, sizes.size()); ++d) {
      const std::int64_t in = call.inputs[0].shape[static_cast<int>(d)];
      options.scales.push_back(in == 0 ? 1
                                       : static_cast<double>(sizes[d]) / static_cast<double>(in));
    }
  }
  if (attributes.has("roi")) options.roi = attributes.numbers("roi");
  if (options.roi.empty()) {
    options.roi.assign(rank, 0);
    options.roi.resize(2 * rank, 1);
  }
  require_numbers("scales", options.scales, rank);
  require_numbers("roi", options.roi, 2 * rank);
  return options;
}

/// True if no number of the options can lead out of the range of indices.
bool plausible(const Options& options) {
  constexpr double kMost = 1 << 20;
  const auto small = [](double x) {
    return std::abs(x) <= kMost;
  };  // not NaN either
  return std::ranges::all_of(options.roi, small) && small(options.cubic_a);
}

/// True if `out` may be what a scale makes of `in`, whichever way it was rounded.
bool fits_scale(const Options& options, int dim, std::int64_t in, std::int64_t out) {
  if (out == 0 || in == 0) return out == 0;
  const double scaled = options.scales[static_cast<std::size_t>(dim)] * static_cast<double>(in);
  if (options.coordinate == Coordinate::tf_crop_and_resize) return scaled > 0.4;
  const auto wanted = static_cast<double>(out);
  return scaled > wanted - 0.6 && scaled < wanted + 1.1;
}

std::vector<OperandType> infer_resize(const OpCall& call) {
  require_type(call, 0, Types::number);
  const Shape& in = call.inputs[0].shape;
  const Shape out(std::span<const std::int64_t>(call.attributes.integers("sizes")));
  const Options options = options_of(call);
  bool fits = out.rank() == in.rank() && plausible(options);
  for (int d = 0; fits && d < in.rank(); ++d) {
    fits = fits_scale(options, d, in[d], out[d]);
  }
  if (!fits) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("can't resize {} to {} by scales {}", in.to_string(), out.to_string(),
                            fmt::join(options.scales, ",")));
  }
  return {rows(call.inputs[0].dtype, out)};
}

/// True if a dim comes out as it goes in.
bool untouched(const OpCall& call, const Options& options, int dim) {
  return options.scales[static_cast<std::size_t>(dim)] == 1 &&
         options.coordinate != Coordinate::tf_crop_and_resize &&
         call.inputs[0].shape[dim] == call.outputs[0].shape[dim];
}

Factors resize_factors(const OpCall& call) {
  const Options options = options_of(call);
  FactorBuilder builder(call);
  for (int d = 0; d < call.inputs[0].shape.rank(); ++d) {
    if (untouched(call, options, d)) builder.share(d, d);
  }
  return builder.build();
}

/// Where element `i` of `out` lies in the input, in elements.
double source_position(const Options& options, std::size_t dim, std::int64_t i, std::int64_t in,
                       std::int64_t out) {
  const double scale = options.scales[dim];
  const auto x = static_cast<double>(i);
  const auto in_size = static_cast<double>(in);
  const auto out_size = static_cast<double>(out);
  // ONNX means the size before it is rounded to whole elements.
  const double scaled = scale * in_size;
  const double exact_size = std::abs(scaled - out_size) < 1e-5 * out_size ? out_size : scaled;
  const double half_pixel = (x + 0.5) / scale - 0.5;
  switch (options.coordinate) {
    case Coordinate::half_pixel: return half_pixel;
    case Coordinate::half_pixel_symmetric:
      return in_size / 2 * (1 - out_size / exact_size) + half_pixel;
    case Coordinate::pytorch_half_pixel: return out > 1 ? half_pixel : 0;
    case Coordinate::align_corners:
      return exact_size > 1 ? x * (in_size - 1) / (exact_size - 1) : 0;
    case Coordinate::asymmetric: return x / scale;
    case Coordinate::tf_crop_and_resize: break;
  }
  const double start = options.roi[dim];
  const double end = options.roi[options.scales.size() + dim];
  if (out <= 1) return 0.5 * (start + end) * (in_size - 1);
  return start * (in_size - 1) + x * (end - start) * (in_size - 1) / (out_size - 1);
}

std::int64_t rounded(Rounding rounding, double x) {
  switch (rounding) {
    case Rounding::prefer_floor: return static_cast<std::int64_t>(std::ceil(x - 0.5));
    case Rounding::prefer_ceil: return static_cast<std::int64_t>(std::floor(x + 0.5));
    case Rounding::floor: return static_cast<std::int64_t>(std::floor(x));
    case Rounding::ceil: return static_cast<std::int64_t>(std::ceil(x));
  }
  return 0;
}

/// The interpolation kernel at a distance from its middle.
double kernel(const Options& options, double distance) {
  const double x = std::abs(distance);
  if (options.mode == Mode::linear) return std::max(0.0, 1 - x);
  const double a = options.cubic_a;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

/// One output element along one dim: which input elements, with which weights.
struct Taps {
  std::vector<std::int64_t> indices;
  std::vector<double> weights;
  bool outside = false;  // takes the extrapolation value
};

Taps interpolating_taps(const Options& options, double position, double scale, std::int64_t in) {
  Taps taps;
  const double middle = std::floor(position);
  // An antialiasing kernel grows to the size of an output element.
  const double shrink = options.antialias ? std::min(scale, 1.0) : 1;
  const double reach = options.mode == Mode::linear ? 1 : 2;
  const auto begin = static_cast<std::int64_t>(std::floor(-reach / shrink)) + 1;
  double sum = 0;
  for (std::int64_t i = begin; i < 2 - begin; ++i) {
    const std::int64_t index = static_cast<std::int64_t>(middle) + i;
    double weight = kernel(options, shrink * (static_cast<double>(i) - (position - middle)));
    if (options.exclude_outside && (index < 0 || index >= in)) weight = 0;
    taps.indices.push_back(std::clamp<std::int64_t>(index, 0, in - 1));
    taps.weights.push_back(weight);
    sum += weight;
  }
  if (options.antialias || options.exclude_outside) {
    for (double& weight : taps.weights) {
      weight /= sum;
    }
  }
  return taps;
}

std::vector<Taps> taps_along(const OpCall& call, const Options& options, int dim) {
  const std::int64_t in = call.inputs[0].shape[dim];
  const std::int64_t out = call.outputs[0].shape[dim];
  const auto d = static_cast<std::size_t>(dim);
  std::vector<Taps> result;
  for (std::int64_t i = 0; i < out; ++i) {
    if (untouched(call, options, dim)) {
      result.push_back({.indices = {i}, .weights = {1}});
      continue;
    }
    const double position = source_position(options, d, i, in, out);
    Taps taps;
    if (options.mode == Mode::nearest) {
      taps.indices = {std::clamp<std::int64_t>(rounded(options.rounding, position), 0, in - 1)};
    } else {
      taps = interpolating_taps(options, position, options.scales[d], in);
    }
    taps.outside = options.coordinate == Coordinate::tf_crop_and_resize &&
                   (position < 0 || position > static_cast<double>(in - 1));
    result.push_back(std::move(taps));
  }
  return result;
}

using TapTable = std::vector<std::vector<Taps>>;  // per dim, per output index

void resize_nearest(const OpCall& call, Inputs inputs, Outputs outputs, const TapTable& table,
                    double extrapolation) {
  const Dims strides = row_major_strides(call.inputs[0].shape);
  std::byte fill[8];
  const std::vector<double> value{extrapolation};
  store(value, rows(call.outputs[0].dtype, Shape{}), fill);
  pick(inputs[0], fill, call.outputs[0], outputs[0], [&](const Dims& index) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < index.size(); ++d) {
      const Taps& taps = table[d][static_cast<std::size_t>(index[d])];
      if (taps.outside) return std::int64_t{-1};
      offset += taps.indices[0] * strides[d];
    }
    return offset;
  });
}

/// `values` of `shape` resampled along one dim.
std::vector<double> resampled(const std::vector<double>& values, const Shape& shape, int dim,
                              const std::vector<Taps>& table) {
  const AxisView view = around(shape, dim);
  const auto out = static_cast<std::int64_t>(table.size());
  auto result = zeros<double>(view.outer * out * view.inner);
  for (std::int64_t o = 0; o < view.outer; ++o) {
    for (std::int64_t i = 0; i < out; ++i) {
      const Taps& taps = table[static_cast<std::size_t>(i)];
      double* to = result.data() + (o * out + i) * view.inner;
      for (std::size_t k = 0; k < taps.indices.size(); ++k) {
        const double* from = values.data() + (o * view.size + taps.indices[k]) * view.inner;
        for (std::int64_t j = 0; j < view.inner; ++j) {
          to[j] += taps.weights[k] * from[j];
        }
      }
    }
  }
  return result;
}

void run_resize(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Options options = options_of(call);
  const Shape& out = call.outputs[0].shape;
  if (out.element_count() == 0) return;
  TapTable table;
  for (int d = 0; d < out.rank(); ++d) {
    table.push_back(taps_along(call, options, d));
  }
  if (options.mode == Mode::nearest) {
    resize_nearest(call, inputs, outputs, table, options.extrapolation);
    return;
  }
  Shape shape = call.inputs[0].shape;
  const Loaded<double> x(inputs[0], call.inputs[0]);
  std::vector<double> values(x.data(), x.data() + shape.element_count());
  for (int d = 0; d < out.rank(); ++d) {
    if (untouched(call, options, d)) continue;
    values = resampled(values, shape, d, table[static_cast<std::size_t>(d)]);
    shape = shape.with(d, out[d]);
  }
  Dims index = zero_index(out);
  for (double& value : values) {
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (table[d][static_cast<std::size_t>(index[d])].outside) value = options.extrapolation;
    }
    next_index(index, out);
  }
  store(values, call.outputs[0], outputs[0]);
}

constexpr OpDef kOps[] = {
    {.name = "resize", .infer = infer_resize, .factors = resize_factors, .reference = run_resize},
};

}  // namespace

std::span<const OpDef> resize_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
