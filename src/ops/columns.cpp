#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/math.hpp"

#include "attribute_form.hpp"
#include "elements.hpp"
#include "tables.hpp"
#include "window.hpp"

/// Images taken apart into the columns that a convolution multiplies, and put together again:
/// col2im (ONNX Col2Im 18), and deform_columns, the reading half of DeformConv 19 and 22.
namespace tilemesh::ops {
namespace {

using Integers = std::vector<std::int64_t>;

constexpr std::int64_t kMost = std::int64_t{1} << 31;
constexpr IntegerRule kPositive{.fallback = 1, .min = 1, .max = kMost};
constexpr IntegerRule kPads{.fallback = 0, .min = 0, .max = kMost};

std::int64_t product(const Integers& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{1}, checked_mul);
}

// col2im: [N, C*taps, blocks] summed into [N, C, image...].

void canonical_col2im(AttributeForm& form) {
  const Integers image = form.integer_list("image", {.min = 0, .max = kMost});
  form.integers("kernel", image.size(), {.min = 1, .max = kMost});
  form.integers("strides", image.size(), kPositive);
  form.integers("dilations", image.size(), kPositive);
  form.integers("pads", 2 * image.size(), kPads);
}

/// How many blocks fit along each dim.
Integers blocks_of(const OpCall& call) {
  const Integers& image = call.attributes.integers("image");
  const Integers& kernel = call.attributes.integers("kernel");
  const Integers& strides = call.attributes.integers("strides");
  const Integers& dilations = call.attributes.integers("dilations");
  const Integers& pads = call.attributes.integers("pads");
  Integers blocks;
  for (std::size_t d = 0; d < image.size(); ++d) {
    const std::int64_t extent = checked_add(checked_mul(kernel[d] - 1, dilations[d]), 1);
    const std::int64_t room = image[d] + pads[d] + pads[image.size() + d] - extent;
    blocks.push_back(room < 0 ? 0 : room / strides[d] + 1);
  }
  return blocks;
}

std::vector<OperandType> infer_col2im(const OpCall& call) {
  require_type(call, 0, Types::number);
  require_rank(call, 0, 3);
  const Shape& x = call.inputs[0].shape;
  const Integers& image = call.attributes.integers("image");
  const std::int64_t taps = product(call.attributes.integers("kernel"));
  const Integers blocks = blocks_of(call);
  if (image.empty() || x[1] % taps != 0 || x[2] != product(blocks)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("input 0 wants [N, C * {}, {}] for an image of [{}], got {}", taps,
                            product(blocks), fmt::join(image, ","), x.to_string()));
  }
  Integers sizes{x[0], x[1] / taps};
  sizes.insert(sizes.end(), image.begin(), image.end());
  return {rows(call.inputs[0].dtype, Shape(std::span<const std::int64_t>(sizes)))};
}

/// Batch and channels.
Factors col2im_factors(const OpCall& call) {
  FactorBuilder builder(call);
  builder.share(0, 0);
  builder.share(1, 1);
  return builder.build();
}

/// Where a tap of each block lies in the image; -1: outside.
std::vector<std::int64_t> places_of_tap(const OpCall& call, const Integers& blocks,
                                        std::int64_t tap) {
  const Integers& image = call.attributes.integers("image");
  const Integers& kernel = call.attributes.integers("kernel");
  const Integers& strides = call.attributes.integers("strides");
  const Integers& dilations = call.attributes.integers("dilations");
  const Integers& pads = call.attributes.integers("pads");
  std::vector<std::int64_t> places{0};
  std::int64_t taps = product(kernel);
  for (std::size_t d = 0; d < image.size(); ++d) {
    taps /= kernel[d];
    const std::int64_t first = tap / taps % kernel[d] * dilations[d] - pads[d];
    std::vector<std::int64_t> finer;
    finer.reserve(places.size() * static_cast<std::size_t>(blocks[d]));
    for (const std::int64_t place : places) {
      for (std::int64_t b = 0; b < blocks[d]; ++b) {
        const std::int64_t at = first + b * strides[d];
        finer.push_back(place < 0 || at < 0 || at >= image[d] ? -1 : place * image[d] + at);
      }
    }
    places = std::move(finer);
  }
  return places;
}

void run_col2im(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Shape& in = call.inputs[0].shape;
  const AxisView image = around(call.outputs[0].shape, 1);
  const std::int64_t taps = product(call.attributes.integers("kernel"));
  const Integers blocks = blocks_of(call);
  visit_wide(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Loaded<T> x(inputs[0], call.inputs[0]);
    auto values = zeros<T>(call.outputs[0].shape.element_count());
    for (std::int64_t tap = 0; tap < taps && !values.empty(); ++tap) {
      const std::vector<std::int64_t> places = places_of_tap(call, blocks, tap);
      for (std::int64_t plane = 0; plane < in[0] * image.size; ++plane) {
        const T* from = x.data() + (plane * taps + tap) * in[2];
        T* to = values.data() + plane * image.inner;
        for (std::size_t i = 0; i < places.size(); ++i) {
          if (places[i] >= 0) to[places[i]] = wrapping_add(to[places[i]], from[i]);
        }
      }
    }
    store(values, call.outputs[0], outputs[0]);
  });
}

// deform_columns: x [N,C,H,W] read at the places of a kernel's taps, each moved by an offset
// [N, groups * taps * 2, OH, OW] and scaled by a mask [N, groups * taps, OH, OW]; gives
// [N, C * taps, OH * OW].

enum Input : std::size_t { kX, kOffset, kMask };

void canonical_deform(AttributeForm& form) {
  form.integers("kernel", 2, {.min = 1, .max = kMost});
  form.integers("strides", 2, kPositive);
  form.integers("dilations", 2, kPositive);
  form.integers("pads", 4, kPads);
  form.integer("offset_group", {.fallback = 1, .min = 1});
}

Shape places_of(const OpCall& call) {
  const Window window = window_of(call, call.attributes.integers("kernel"));
  Dims sizes;
  for (std::size_t d = 1; d < 3; ++d) {
    const std::int64_t room =
        window.in[d] + window.pads_begin[d] + window.pads_end[d] - extent(window, d);
    sizes.push_back(room < 0 ? 0 : room / window.strides[d] + 1);
  }
  return Shape(sizes);
}

std::vector<OperandType> infer_deform(const OpCall& call) {
  require_type(call, kX, Types::real);
  require_rank(call, kX, 4);
  const Shape& x = call.inputs[kX].shape;
  const std::int64_t taps = product(call.attributes.integers("kernel"));
  const std::int64_t groups = call.attributes.integer("offset_group");
  const Shape places = places_of(call);
  if (x[1] % groups != 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} channels can't be cut into {} groups of offsets", x[1], groups));
  }
  const std::int64_t moved = checked_mul(groups, taps);
  require_same_type(call, kX, kOffset);
  require_shape(call, kOffset, Shape{x[0], checked_mul(moved, 2), places[0], places[1]},
                "batch, two for each tap of each group, places");
  if (has_input(call, kMask)) {
    require_same_type(call, kX, kMask);
    require_shape(call, kMask, Shape{x[0], moved, places[0], places[1]},
                  "batch, taps of each group, places");
  }
  return {rows(call.inputs[kX].dtype,
               Shape{x[0], checked_mul(x[1], taps), checked_mul(places[0], places[1])})};
}

/// The batch; channels too, where one group of offsets moves them all.
Factors deform_factors(const OpCall& call) {
  FactorBuilder builder(call);
  const int batch = builder.add();
  for (const std::size_t operand : {kX, kOffset, kMask}) {
    builder.input(operand, 0, batch);
  }
  builder.output(0, 0, batch);
  if (call.attributes.integer("offset_group") == 1) builder.share(1, 1);
  return builder.build();
}

/// The plane between its elements; zero outside.
template <class T>
T interpolated(const T* plane, std::int64_t height, std::int64_t width, T y, T x) {
  if (!(y > T{-1} && y < static_cast<T>(height) && x > T{-1} && x < static_cast<T>(width))) {
    return 0;
  }
  const T top = std::floor(y);
  const T left = std::floor(x);
  const auto row = static_cast<std::int64_t>(top);
  const auto column = static_cast<std::int64_t>(left);
  const auto at = [&](std::int64_t i, std::int64_t k) {
    return i < 0 || i >= height || k < 0 || k >= width ? T{0} : plane[i * width + k];
  };
  const T down = y - top;
  const T right = x - left;
  return (1 - down) * ((1 - right) * at(row, column) + right * at(row, column + 1)) +
         down * ((1 - right) * at(row + 1, column) + right * at(row + 1, column + 1));
}

template <class T>
void deform(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Window w = window_of(call, call.attributes.integers("kernel"));
  const Shape places = places_of(call);
  const std::int64_t taps = w.kernel_count();
  const std::int64_t size = places[0] * places[1];
  const Shape& in = call.inputs[kX].shape;
  const std::int64_t groups = call.attributes.integer("offset_group");
  const Loaded<T> x(inputs[kX], call.inputs[kX]);
  const Loaded<T> offset(inputs[kOffset], call.inputs[kOffset]);
  std::optional<Loaded<T>> mask;
  if (has_input(call, kMask)) mask.emplace(inputs[kMask], call.inputs[kMask]);
  auto values = zeros<T>(call.outputs[0].shape.element_count());
  T* to = values.data();
  for (std::int64_t plane = 0; plane < in[0] * in[1]; ++plane) {
    const std::int64_t group = plane / in[1] * groups + plane % in[1] / (in[1] / groups);
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const T* move = offset.data() + (group * taps + tap) * 2 * size;
      const T* scale = mask ? mask->data() + (group * taps + tap) * size : nullptr;
      const std::int64_t down = tap / w.kernel[2] * w.dilations[1] - w.pads_begin[1];
      const std::int64_t right = tap % w.kernel[2] * w.dilations[2] - w.pads_begin[2];
      for (std::int64_t i = 0; i < size; ++i) {
        const auto y = static_cast<T>(i / places[1] * w.strides[1] + down) + move[i];
        const auto column = static_cast<T>(i % places[1] * w.strides[2] + right) + move[size + i];
        const T value = interpolated(x.data() + plane * in[2] * in[3], in[2], in[3], y, column);
        *to++ = scale == nullptr ? value : value * scale[i];
      }
    }
  }
  store(values, call.outputs[0], outputs[0]);
}

void run_deform(const OpCall& call, Inputs inputs, Outputs outputs) {
  if (call.outputs[0].shape.element_count() == 0) return;
  if (call.inputs[kX].dtype == DType::f64) {
    deform<double>(call, inputs, outputs);
  } else {
    deform<float>(call, inputs, outputs);
  }
}

constexpr OpDef kOps[] = {
    {.name = "col2im",
     .canonical = canonical_col2im,
     .infer = infer_col2im,
     .factors = col2im_factors,
     .reference = run_col2im,
     .partial = PartialRule::sums},
    {.name = "deform_columns",
     .min_inputs = 2,
     .max_inputs = 3,
     .canonical = canonical_deform,
     .infer = infer_deform,
     .factors = deform_factors,
     .reference = run_deform},
};

}  // namespace

std::span<const OpDef> column_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
