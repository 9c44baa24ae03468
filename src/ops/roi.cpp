#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilemesh/base/error.hpp"

#include "attribute_form.hpp"
#include "elements.hpp"
#include "tables.hpp"

/// Pooling over regions of [N,C,H,W]: ONNX RoiAlign 10 to 22 and MaxRoiPool.
namespace tilemesh::ops {
namespace {

// Samples of one region: a hostile one would ask for any number.
constexpr double kMaxSamples = 1 << 22;
constexpr std::int64_t kMaxBins = 1 << 12;

void canonical_roi_align(AttributeForm& form) {
  form.choice("mode", {"avg", "max"});
  form.integer("output_height", {.fallback = 1, .min = 1, .max = kMaxBins});
  form.integer("output_width", {.fallback = 1, .min = 1, .max = kMaxBins});
  form.integer("sampling_ratio", {.fallback = 0, .min = 0, .max = kMaxBins});
  form.number("spatial_scale", 1.0);
  form.flag("half_pixel", true);
}

void canonical_max_roi_pool(AttributeForm& form) {
  form.integer("output_height", {.min = 1, .max = kMaxBins});
  form.integer("output_width", {.min = 1, .max = kMaxBins});
  form.number("spatial_scale", 1.0);
}

OperandType pooled(const OpCall& call, int columns) {
  require_type(call, 0, Types::real);
  require_same_type(call, 0, 1);
  require_rank(call, 0, 4);
  require_rank(call, 1, 2);
  const Shape& x = call.inputs[0].shape;
  const Shape& rois = call.inputs[1].shape;
  require_shape(call, 1, Shape{rois[0], columns}, "one row per region");
  return rows(call.inputs[0].dtype, Shape{rois[0], x[1], call.attributes.integer("output_height"),
                                          call.attributes.integer("output_width")});
}

std::vector<OperandType> infer_roi_align(const OpCall& call) {
  const OperandType output = pooled(call, 4);
  require_type(call, 2, Types::index);
  require_shape(call, 2, Shape{call.inputs[1].shape[0]}, "one batch index per region");
  const Shape& x = call.inputs[0].shape;
  if (x.element_count() == 0 && output.shape.element_count() != 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("there is nothing to sample in {}", x.to_string()));
  }
  return {output};
}

std::vector<OperandType> infer_max_roi_pool(const OpCall& call) {
  return {pooled(call, 5)};
}

/// Channels and regions.
Factors roi_factors(const OpCall& call) {
  FactorBuilder builder(call);
  builder.share(1, 1);
  const int region = builder.add();
  builder.input(1, 0, region);
  builder.input(2, 0, region);
  builder.output(0, 0, region);
  return builder.build();
}

/// What a sample's place along one dim reads: two neighbours.
template <class T>
struct Place {
  std::int64_t low = -1, high = -1;  // -1: outside
  T weight_low = 0, weight_high = 0;
};

template <class T>
Place<T> place_at(T position, std::int64_t size) {
  if (!(position >= T{-1} && position <= static_cast<T>(size))) return {};
  position = std::max(position, T{0});
  const auto low = static_cast<std::int64_t>(position);
  if (low >= size - 1) return {size - 1, size - 1, T{1}, T{0}};
  const T weight = position - static_cast<T>(low);
  return {low, low + 1, T{1} - weight, weight};
}

/// The places along one dim of one region: `per_bin` for each of the bins.
template <class T>
void find_places(std::vector<Place<T>>& places, T start, T end, std::int64_t size,
                 std::int64_t bins, const OpCall& call, std::int64_t& per_bin) {
  T length = end - start;
  if (call.attributes.integer("half_pixel") == 0) length = std::max(length, T{1});
  const T bin = length / static_cast<T>(bins);
  const std::int64_t ratio = call.attributes.integer("sampling_ratio");
  const T wanted = ratio > 0 ? static_cast<T>(ratio) : std::ceil(bin);
  if (!std::isfinite(start) || !(wanted * static_cast<T>(bins) <= static_cast<T>(kMaxSamples))) {
    throw Error(ErrorCode::kernel_failed,
                fmt::format("a region from {} to {} (scaled) can't be sampled", start, end));
  }
  per_bin = std::max<std::int64_t>(static_cast<std::int64_t>(wanted), 0);
  places.clear();
  for (std::int64_t b = 0; b < bins; ++b) {
    for (std::int64_t i = 0; i < per_bin; ++i) {
      const T inside = (static_cast<T>(i) + T(0.5)) * bin / static_cast<T>(per_bin);
      places.push_back(place_at(start + static_cast<T>(b) * bin + inside, size));
    }
  }
}

/// The regions of a call, one after the other; keeps its room.
template <class T>
class RoiAlign {
 public:
  RoiAlign(const OpCall& call, Inputs inputs)
      : call_(call),
        in_(call.inputs[0].shape),
        out_(call.outputs[0].shape),
        x_(inputs[0], call.inputs[0]),
        rois_(inputs[1], call.inputs[1]),
        batches_(load_indices(inputs[2], call.inputs[2], in_[0])),
        scale_(static_cast<T>(call.attributes.number("spatial_scale"))),
        offset_(call.attributes.integer("half_pixel") != 0 ? T(0.5) : T{0}),
        max_(call.attributes.text("mode") == "max") {}

  void run(std::int64_t region, T* to) {
    const T* roi = rois_.data() + region * 4;
    const auto scaled = [&](int i) {
      return roi[i] * scale_ - offset_;
    };
    find_places(columns_, scaled(0), scaled(2), in_[3], out_[3], call_, per_bin_x_);
    find_places(rows_, scaled(1), scaled(3), in_[2], out_[2], call_, per_bin_y_);
    if (static_cast<double>(columns_.size()) * static_cast<double>(rows_.size()) > kMaxSamples) {
      throw Error(ErrorCode::kernel_failed,
                  fmt::format("region {} wants {} x {} samples, up to {} are possible", region,
                              rows_.size(), columns_.size(), kMaxSamples));
    }
    const std::int64_t plane = in_[2] * in_[3];
    const T* from = x_.data() + batches_[static_cast<std::size_t>(region)] * in_[1] * plane;
    for (std::int64_t c = 0; c < in_[1]; ++c, from += plane) {
      for (std::int64_t y = 0; y < out_[2]; ++y) {
        for (std::int64_t x = 0; x < out_[3]; ++x) {
          *to++ = max_ ? highest(from, y, x) : average(from, y, x);
        }
      }
    }
  }

 private:
  /// Calls `visit` with the four weighted neighbours of each sample of a bin; those of a sample
  /// outside are zeros.
  template <class Visit>
  void each_sample(const T* plane, std::int64_t y, std::int64_t x, const Visit& visit) const {
    for (std::int64_t i = y * per_bin_y_; i < (y + 1) * per_bin_y_; ++i) {
      const Place<T>& row = rows_[static_cast<std::size_t>(i)];
      for (std::int64_t k = x * per_bin_x_; k < (x + 1) * per_bin_x_; ++k) {
        const Place<T>& column = columns_[static_cast<std::size_t>(k)];
        if (row.low < 0 || column.low < 0) {
          visit(T{0}, T{0}, T{0}, T{0});
          continue;
        }
        const T* low = plane + row.low * in_[3];
        const T* high = plane + row.high * in_[3];
        visit(row.weight_low * column.weight_low * low[column.low],
              row.weight_low * column.weight_high * low[column.high],
              row.weight_high * column.weight_low * high[column.low],
              row.weight_high * column.weight_high * high[column.high]);
      }
    }
  }

  T average(const T* plane, std::int64_t y, std::int64_t x) const {
    double sum = 0;
    each_sample(plane, y, x, [&](T a, T b, T c, T d) {
      sum += static_cast<double>(a) + static_cast<double>(b) + static_cast<double>(c) +
             static_cast<double>(d);
    });
    return static_cast<T>(sum /
                          static_cast<double>(std::max<std::int64_t>(per_bin_y_ * per_bin_x_, 1)));
  }

  // ONNX takes the highest of the weighted neighbours, not of the interpolated samples.
  T highest(const T* plane, std::int64_t y, std::int64_t x) const {
    bool any = false;
    T top = 0;
    each_sample(plane, y, x, [&](T a, T b, T c, T d) {
      for (const T value : {a, b, c, d}) {
        if (!any || value > top || is_nan(value)) top = is_nan(top) && any ? top : value;
        any = true;
      }
    });
    return top;
  }

  const OpCall& call_;
  const Shape& in_;
  const Shape& out_;
  Loaded<T> x_, rois_;
  std::vector<std::int64_t> batches_;
  T scale_, offset_;
  bool max_;
  std::vector<Place<T>> rows_, columns_;
  std::int64_t per_bin_y_ = 0, per_bin_x_ = 0;
};

void run_roi_align(const OpCall& call, Inputs inputs, Outputs outputs) {
  if (call.outputs[0].shape.element_count() == 0) return;
  visit_product(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_floating_point_v<T>) {
      RoiAlign<T> align(call, inputs);
      const Shape& out = call.outputs[0].shape;
      auto values = zeros<T>(out.element_count());
      for (std::int64_t region = 0; region < out[0]; ++region) {
        align.run(region, values.data() + region * around(out, 0).inner);
      }
      store(values, call.outputs[0], outputs[0]);
    }
  });
}

/// The elements of a bin along one dim: [first, last).
struct Bin {
  std::int64_t first = 0, last = 0;
};

Bin bin_of(std::int64_t number, std::int64_t bins, double start, double end, std::int64_t size) {
  const double length = std::max(end - start + 1, 1.0) / static_cast<double>(bins);
  const auto inside = [&](double at) {
    return static_cast<std::int64_t>(std::clamp(at + start, 0.0, static_cast<double>(size)));
  };
  return {inside(std::floor(static_cast<double>(number) * length)),
          inside(std::ceil(static_cast<double>(number + 1) * length))};
}

/// A region of MaxRoiPool: its batch entry and its bounds, in whole elements.
struct Region {
  std::int64_t batch = 0;
  double left = 0, top = 0, right = 0, bottom = 0;
};

template <class T>
Region region_at(const OpCall& call, const T* roi) {
  const auto scale = static_cast<T>(call.attributes.number("spatial_scale"));
  std::array<double, 5> bounds{static_cast<double>(roi[0])};
  for (std::size_t i = 1; i < 5; ++i) {
    bounds[i] = std::round(static_cast<double>(roi[i] * scale));
  }
  constexpr double kMost = 1 << 30;
  if (!std::ranges::all_of(bounds, [](double x) { return std::abs(x) <= kMost; })) {
    throw Error(ErrorCode::kernel_failed,
                fmt::format("a region of {} can't be pooled", fmt::join(bounds, ",")));
  }
  return {wrapped_index(static_cast<std::int64_t>(bounds[0]), call.inputs[0].shape[0]), bounds[1],
          bounds[2], bounds[3], bounds[4]};
}

template <class T>
T highest_in(const T* plane, std::int64_t stride, const Bin& rows, const Bin& columns) {
  if (rows.last <= rows.first || columns.last <= columns.first) return 0;
  T top = -std::numeric_limits<T>::infinity();
  for (std::int64_t i = rows.first; i < rows.last; ++i) {
    for (std::int64_t k = columns.first; k < columns.last; ++k) {
      const T value = plane[i * stride + k];
      if (value > top || is_nan(value)) top = value;
    }
  }
  return top;
}

template <class T>
void max_roi_pool(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Shape& in = call.inputs[0].shape;
  const Shape& out = call.outputs[0].shape;
  const Loaded<T> x(inputs[0], call.inputs[0]);
  const Loaded<T> rois(inputs[1], call.inputs[1]);
  auto values = zeros<T>(out.element_count());
  T* to = values.data();
  for (std::int64_t r = 0; r < out[0] && !values.empty(); ++r) {
    const Region region = region_at(call, rois.data() + r * 5);
    const T* plane = x.data() + region.batch * in[1] * in[2] * in[3];
    for (std::int64_t c = 0; c < in[1]; ++c, plane += in[2] * in[3]) {
      for (std::int64_t i = 0; i < out[2]; ++i) {
        const Bin rows = bin_of(i, out[2], region.top, region.bottom, in[2]);
        for (std::int64_t k = 0; k < out[3]; ++k) {
          *to++ =
              highest_in(plane, in[3], rows, bin_of(k, out[3], region.left, region.right, in[3]));
        }
      }
    }
  }
  store(values, call.outputs[0], outputs[0]);
}

void run_max_roi_pool(const OpCall& call, Inputs inputs, Outputs outputs) {
  if (call.inputs[0].dtype == DType::f64) {
    max_roi_pool<double>(call, inputs, outputs);
  } else {
    max_roi_pool<float>(call, inputs, outputs);
  }
}

constexpr OpDef kOps[] = {
    {.name = "roi_align",
     .min_inputs = 3,
     .max_inputs = 3,
     .canonical = canonical_roi_align,
     .infer = infer_roi_align,
     .factors = roi_factors,
     .reference = run_roi_align},
    {.name = "max_roi_pool",
     .min_inputs = 2,
     .max_inputs = 2,
     .canonical = canonical_max_roi_pool,
     .infer = infer_max_roi_pool,
     .factors = roi_factors,
     .reference = run_max_roi_pool},
};

}  // namespace

std::span<const OpDef> roi_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
