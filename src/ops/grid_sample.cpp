#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "attribute_form.hpp"
#include "elements.hpp"
#include "tables.hpp"

/// ONNX GridSample 16 to 22: x [N,C,D1..Dr] read at the positions of grid [N,O1..Or,r], whose last
/// dim counts from the last spatial one; -1 and 1 are the two ends of a dim.
namespace tilemesh::ops {
namespace {

constexpr std::size_t kMaxTaps = 4 * 4 * 4;

enum class Mode { nearest, linear, cubic };
enum class Padding { zeros, border, reflection };

struct Options {
  Mode mode;
  Padding padding;
  bool align_corners;
};

void canonical_grid_sample(AttributeForm& form) {
  form.choice("mode", {"linear", "nearest", "cubic"});
  form.choice("padding", {"zeros", "border", "reflection"});
  form.flag("align_corners", false);
}

Options options_of(const OpCall& call) {
  const std::string& mode = call.attributes.text("mode");
  const std::string& padding = call.attributes.text("padding");
  return {.mode = mode == "nearest"  ? Mode::nearest
                  : mode == "linear" ? Mode::linear
                                     : Mode::cubic,
          .padding = padding == "zeros"    ? Padding::zeros
                     : padding == "border" ? Padding::border
                                           : Padding::reflection,
          .align_corners = call.attributes.integer("align_corners") != 0};
}

std::vector<OperandType> infer_grid_sample(const OpCall& call) {
  require_type(call, 0, Types::real);
  require_type(call, 1, Types::real);
  const Shape& x = call.inputs[0].shape;
  const Shape& grid = call.inputs[1].shape;
  const int spatial = x.rank() - 2;
  if (spatial < 1 || spatial > 3) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("input 0 wants [N, C, 1 to 3 spatial dims], got {}", x.to_string()));
  }
  if (grid.rank() != x.rank() || grid[0] != x[0] || grid[x.rank() - 1] != spatial) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("input 1 wants [{}, {} output dims, {}] for input 0 {}, got {}", x[0],
                            spatial, spatial, x.to_string(), grid.to_string()));
  }
  Dims sizes{x[0], x[1]};
  for (int d = 1; d <= spatial; ++d) {
    sizes.push_back(grid[d]);
  }
  const Shape out(sizes);
  if (x.element_count() == 0 && out.element_count() != 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("there is nothing to sample in {}", x.to_string()));
  }
  return {rows(call.inputs[0].dtype, out)};
}

/// Batch, channels, and the places that are sampled.
Factors grid_sample_factors(const OpCall& call) {
  FactorBuilder builder(call);
  const int batch = builder.add();
  builder.input(0, 0, batch);
  builder.input(1, 0, batch);
  builder.output(0, 0, batch);
  builder.share(1, 1);
  for (int d = 2; d < call.inputs[0].shape.rank(); ++d) {
    const int place = builder.add();
    builder.input(1, d - 1, place);
    builder.output(0, d, place);
  }
  return builder.build();
}

/// Mirrored at the borders until it lies between them.
template <class G>
G reflected(G x, G low, G high) {
  const G range = high - low;
  if (x >= low && x <= high) return x;
  if (!(range > 0) || !std::isfinite(x)) return low;
  const G beyond = x < low ? low - x : x - high;
  const G times = std::floor(beyond / range);
  const G rest = beyond - times * range;
  const bool from_low = (x < low) == (std::fmod(times, G{2}) == 0);
  return from_low ? low + rest : high - rest;
}

/// The elements along one dim that a position reads, and their weights; -1: outside, zero.
struct Taps {
  std::size_t count = 0;
  std::array<std::int64_t, 4> at{};
  std::array<double, 4> weight{};
};

/// One spatial dim: from a grid's coordinate to taps. G: the type in which positions are counted,
/// the grid's, since rounding decides which neighbour is the nearest.
template <class G>
class Axis {
 public:
  Axis(const Options& options, std::int64_t size)
      : options_(options),
        size_(size),
        low_(options.align_corners ? G{0} : G(-0.5)),
        high_(low_ + static_cast<G>(options.align_corners ? size - 1 : size)) {}

  Taps taps(G coordinate) const {
    G x = position(coordinate);
    if (options_.mode == Mode::nearest) x = std::nearbyint(x);
    x = brought_inside(x);
    // What is far outside (or nowhere) reads nothing; casting it would be undefined.
    if (!(x > G{-4} && x < static_cast<G>(size_) + G{4})) return {.count = 1, .at = {-1}};
    const G first = std::floor(x);
    const auto i = static_cast<std::int64_t>(first);
    const auto t = static_cast<double>(x - first);
    switch (options_.mode) {
      case Mode::nearest: return {1, {element(i)}, {1}};
      case Mode::linear: return {2, {element(i), element(i + 1)}, {1 - t, t}};
      case Mode::cubic: break;
    }
    return {4,
            {element(i - 1), element(i), element(i + 1), element(i + 2)},
            {far(t + 1), near(t), near(1 - t), far(2 - t)}};
  }

 private:
  static constexpr double kA = -0.75;  // of the cubic convolution kernel

  static double near(double x) { return ((kA + 2) * x - (kA + 3)) * x * x + 1; }
  static double far(double x) { return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA; }

  G position(G coordinate) const {
    const auto n = static_cast<G>(size_);
    return options_.align_corners ? (coordinate + 1) / 2 * (n - 1) : ((coordinate + 1) * n - 1) / 2;
  }

  G brought_inside(G x) const {
    if (x >= low_ && x <= high_) return x;
    switch (options_.padding) {
      case Padding::zeros: return x;
      case Padding::border: break;
      case Padding::reflection: return reflected(x, low_, high_);
    }
    // Cubic taps are held at the border one by one, as PyTorch does.
    const auto reach = static_cast<G>(options_.mode == Mode::cubic ? 3 : 0);
    const G last = static_cast<G>(size_ - 1) + reach;
    return x > -reach ? std::min(x, last) : std::isnan(x) ? G{0} : -reach;
  }

  std::int64_t element(std::int64_t i) const {
    if (i >= 0 && i < size_) return i;
    if (options_.padding == Padding::zeros) return -1;
    if (options_.padding == Padding::reflection) {
      i = static_cast<std::int64_t>(reflected(static_cast<G>(i), low_, high_));
    }
    return std::clamp<std::int64_t>(i, 0, size_ - 1);
  }

  Options options_;
  std::int64_t size_;
  G low_, high_;
};

/// What one place of the output reads of each plane.
struct Reads {
  std::size_t count = 0;
  std::array<std::int64_t, kMaxTaps> offset;
  std::array<double, kMaxTaps> weight;
};

/// `reads` spread over one more dim of `size` elements.
void spread(Reads& reads, const Taps& taps, std::int64_t size) {
  const Reads before = reads;
  reads.count = 0;
  for (std::size_t k = 0; k < before.count; ++k) {
    for (std::size_t t = 0; t < taps.count; ++t) {
      if (taps.at[t] < 0) continue;
      reads.offset[reads.count] = before.offset[k] * size + taps.at[t];
      reads.weight[reads.count++] = before.weight[k] * taps.weight[t];
    }
  }
}

template <class T, class G>
void sample(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Shape& in = call.inputs[0].shape;
  const Shape& out = call.outputs[0].shape;
  const int spatial = in.rank() - 2;
  std::vector<Axis<G>> axes;
  for (int d = 0; d < spatial; ++d) {
    axes.emplace_back(options_of(call), in[d + 2]);
  }
  const Loaded<T> x(inputs[0], call.inputs[0]);
  const Loaded<G> grid(inputs[1], call.inputs[1]);
  const std::int64_t plane = around(in, 1).inner;
  const std::int64_t places = around(out, 1).inner;
  auto values = zeros<T>(out.element_count());
  const G* coordinates = grid.data();
  for (std::int64_t n = 0; n < in[0]; ++n) {
    for (std::int64_t place = 0; place < places; ++place, coordinates += spatial) {
      Reads reads{.count = 1, .offset = {0}, .weight = {1}};
      for (int d = 0; d < spatial; ++d) {
        spread(reads, axes[static_cast<std::size_t>(d)].taps(coordinates[spatial - 1 - d]),
               in[d + 2]);
      }
      const T* from = x.data() + n * in[1] * plane;
      T* to = values.data() + n * in[1] * places + place;
      for (std::int64_t c = 0; c < in[1]; ++c, from += plane, to += places) {
        double sum = 0;
        for (std::size_t k = 0; k < reads.count; ++k) {
          sum += reads.weight[k] * static_cast<double>(from[reads.offset[k]]);
        }
        *to = static_cast<T>(sum);
      }
    }
  }
  store(values, call.outputs[0], outputs[0]);
}

void run_grid_sample(const OpCall& call, Inputs inputs, Outputs outputs) {
  const bool wide = call.inputs[0].dtype == DType::f64;
  if (call.inputs[1].dtype == DType::f64) {
    wide ? sample<double, double>(call, inputs, outputs)
         : sample<float, double>(call, inputs, outputs);
  } else {
    wide ? sample<double, float>(call, inputs, outputs)
         : sample<float, float>(call, inputs, outputs);
  }
}

constexpr OpDef kOps[] = {
    {.name = "grid_sample",
     .min_inputs = 2,
     .max_inputs = 2,
     .canonical = canonical_grid_sample,
     .infer = infer_grid_sample,
     .factors = grid_sample_factors,
     .reference = run_grid_sample},
};

}  // namespace

std::span<const OpDef> grid_sample_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
