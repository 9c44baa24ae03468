#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/math.hpp"

#include "elements.hpp"
#include "tables.hpp"
#include "window.hpp"

namespace tilemesh::ops {
namespace {

void pool_form(AttributeForm& form) {
  form.integers("kernel", window_form(form), {.min = 1});
  form.flag("ceil_mode", false);
}
void max_pool_form(AttributeForm& form) {
  pool_form(form);
  form.integer("storage_order", {.fallback = 0, .min = 0, .max = 1});
}
void average_pool_form(AttributeForm& form) {
  pool_form(form);
  form.flag("count_include_pad", false);
}

Window pool_window(const OpCall& call) {
  return window_of(call, call.attributes.integers("kernel"));
}

std::int64_t pooled_size(const OpCall& call, const Window& window, std::size_t dim) {
  const std::int64_t padded =
      checked_add(checked_add(window.in[dim], window.pads_begin[dim]), window.pads_end[dim]);
  const std::int64_t room = padded - extent(window, dim);
  if (room < 0 && window.in[dim] == 0) return 0;  // SAME pads of an empty image
  if (room < 0) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("a kernel that spans {} doesn't fit input {} with its pads ({} elements)",
                    extent(window, dim), call.inputs[0].shape.to_string(), padded));
  }
  const std::int64_t stride = window.strides[dim];
  const std::int64_t size = room / stride + 1;
  const bool more = call.attributes.integer("ceil_mode") != 0 && room % stride != 0;
  // A window that would start in the padding behind the input is left out.
  if (more && size <= (window.in[dim] + window.pads_begin[dim] - 1) / stride) return size + 1;
  return size;
}

Shape pooled_shape(const OpCall& call) {
  const Shape& x = call.inputs[0].shape;
  const Window window = pool_window(call);
  Dims sizes{x[0], x[1]};
  for (int d = 2; d < x.rank(); ++d) {
    sizes.push_back(pooled_size(call, window, static_cast<std::size_t>(3 - x.rank() + d)));
  }
  return Shape(sizes);
}

std::vector<OperandType> infer_max_pool(const OpCall& call) {
  require_type(call, 0, Types::number);
  std::vector<OperandType> outputs{rows(call.inputs[0].dtype, pooled_shape(call))};
  if (wanted_outputs(call) > 1) outputs.push_back(rows(DType::i64, outputs[0].shape));
  return outputs;
}

std::vector<OperandType> infer_average_pool(const OpCall& call) {
  require_type(call, 0, Types::real);
  return {rows(call.inputs[0].dtype, pooled_shape(call))};
}

/// Batch and channels; not where indices count elements of the whole input.
Factors pool_factors(const OpCall& call) {
  FactorBuilder builder(call);
  if (call.outputs.size() > 1 && call.outputs[1].present) return builder.build();
  builder.share(0, 0);
  builder.share(1, 1);
  return builder.build();
}

/// Calls `visit(z, y, x)` for the taps of one window that lie inside the input.
template <class Visit>
void each_tap(const Window& w, const std::array<std::int64_t, 3>& at, const Visit& visit) {
  std::array<std::int64_t, 3> first;
  for (std::size_t d = 0; d < 3; ++d) {
    first[d] = at[d] * w.strides[d] - w.pads_begin[d];
  }
  const auto inside = [&](std::size_t d, std::int64_t i) {
    return i >= 0 && i < w.in[d];
  };
  for (std::int64_t a = 0; a < w.kernel[0]; ++a) {
    const std::int64_t z = first[0] + a * w.dilations[0];
    for (std::int64_t b = 0; b < w.kernel[1] && inside(0, z); ++b) {
      const std::int64_t y = first[1] + b * w.dilations[1];
      for (std::int64_t c = 0; c < w.kernel[2] && inside(1, y); ++c) {
        const std::int64_t x = first[2] + c * w.dilations[2];
        if (inside(2, x)) visit(z, y, x);
      }
    }
  }
}

/// Calls `window_value(plane's first element in x, output position, place in the output)`.
template <class Value>
void each_window(const OpCall& call, const Window& w, const Value& window_value) {
  const Shape& in = call.inputs[0].shape;
  std::int64_t place = 0;
  for (std::int64_t plane = 0; plane < in[0] * in[1]; ++plane) {
    for (std::int64_t z = 0; z < w.out[0]; ++z) {
      for (std::int64_t y = 0; y < w.out[1]; ++y) {
        for (std::int64_t x = 0; x < w.out[2]; ++x) {
          window_value(plane * w.in_count(), std::array{z, y, x}, place++);
        }
      }
    }
  }
}

template <class T>
T lowest(DType dtype) {
  if constexpr (std::is_same_v<T, double>) {
    return -std::numeric_limits<double>::infinity();
  } else {
    return static_cast<T>(integer_range(dtype).first);
  }
}

template <class T>
void max_pool(const OpCall& call, Inputs inputs, Outputs outputs) {
  Window w = pool_window(call);
  set_out(w, call.outputs[0].shape);
  const bool columns = call.attributes.integer("storage_order") == 1;
  const Loaded<T> x(inputs[0], call.inputs[0]);
  auto values = zeros<T>(call.outputs[0].shape.element_count());
  auto indices = zeros<std::int64_t>(call.outputs[0].shape.element_count());
  each_window(call, w, [&](std::int64_t plane, const auto& at, std::int64_t place) {
    T best = lowest<T>(call.inputs[0].dtype);
    std::int64_t where = -1;
    each_tap(w, at, [&](std::int64_t a, std::int64_t b, std::int64_t c) {
      const T value = x[plane + (a * w.in[1] + b) * w.in[2] + c];
      // NaN is left out where there is a number.
      if (where >= 0 && !(value > best) && (is_nan(value) || !is_nan(best))) return;
      best = value;
      where = plane + (columns ? a + w.in[0] * (b + w.in[1] * c) : (a * w.in[1] + b) * w.in[2] + c);
    });
    values[static_cast<std::size_t>(place)] = best;
    indices[static_cast<std::size_t>(place)] = where;
  });
  store(values, call.outputs[0], outputs[0]);
  if (has_output(call, outputs, 1)) store(indices, call.outputs[1], outputs[1]);
}

void run_max_pool(const OpCall& call, Inputs inputs, Outputs outputs) {
  visit_wide(call.inputs[0].dtype,
             [&](auto tag) { max_pool<typename decltype(tag)::type>(call, inputs, outputs); });
}

/// Taps of a window that lie inside the input and its pads.
std::int64_t padded_count(const Window& w, const std::array<std::int64_t, 3>& at) {
  std::int64_t count = 1;
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t room = w.in[d] + w.pads_begin[d] + w.pads_end[d] - at[d] * w.strides[d];
    count *= std::min(w.kernel[d], (room - 1) / w.dilations[d] + 1);
  }
  return count;
}

void run_average_pool(const OpCall& call, Inputs inputs, Outputs outputs) {
  Window w = pool_window(call);
  set_out(w, call.outputs[0].shape);
  const bool with_pads = call.attributes.integer("count_include_pad") != 0;
  const Loaded<double> x(inputs[0], call.inputs[0]);
  auto values = zeros<double>(call.outputs[0].shape.element_count());
  each_window(call, w, [&](std::int64_t plane, const auto& at, std::int64_t place) {
    double sum = 0;
    std::int64_t count = 0;
    each_tap(w, at, [&](std::int64_t a, std::int64_t b, std::int64_t c) {
      sum += x[plane + (a * w.in[1] + b) * w.in[2] + c];
      ++count;
    });
    if (with_pads) count = padded_count(w, at);
    values[static_cast<std::size_t>(place)] = count == 0 ? 0 : sum / static_cast<double>(count);
  });
  store(values, call.outputs[0], outputs[0]);
}

std::vector<OperandType> infer_global(const OpCall& call) {
  require_type(call, 0, Types::real);
  require_rank(call, 0, 3, true);
  Shape shape = call.inputs[0].shape;
  for (int d = 2; d < shape.rank(); ++d) {
    shape = shape.with(d, 1);
  }
  return {rows(call.inputs[0].dtype, shape)};
}

Factors global_factors(const OpCall& call) {
  FactorBuilder builder(call);
  builder.share(0, 0);
  builder.share(1, 1);
  return builder.build();
}

/// Calls `value(first, last)` on the elements of each plane.
template <class Value>
void each_plane(const OpCall& call, Inputs inputs, Outputs outputs, const Value& value) {
  const Loaded<double> x(inputs[0], call.inputs[0]);
  const std::int64_t size = around(call.inputs[0].shape, 1).inner;
  auto values = zeros<double>(call.outputs[0].shape.element_count());
  const double* first = x.data();
  for (double& result : values) {
    result = value(first, first + size);
    first += size;
  }
  store(values, call.outputs[0], outputs[0]);
}

void run_global_average(const OpCall& call, Inputs inputs, Outputs outputs) {
  each_plane(call, inputs, outputs, [](const double* first, const double* last) {
    double sum = 0;
    std::for_each(first, last, [&](double x) { sum += x; });
    return sum / static_cast<double>(last - first);
  });
}

void run_global_max(const OpCall& call, Inputs inputs, Outputs outputs) {
  each_plane(call, inputs, outputs, [](const double* first, const double* last) {
    double top = -std::numeric_limits<double>::infinity();
    std::for_each(first, last, [&](double x) { top = x > top || std::isnan(x) ? x : top; });
    return top;
  });
}

constexpr OpDef kOps[] = {
    {.name = "max_pool",
     .max_outputs = 2,
     .canonical = max_pool_form,
     .infer = infer_max_pool,
     .factors = pool_factors,
     .reference = run_max_pool},
    {.name = "average_pool",
     .canonical = average_pool_form,
     .infer = infer_average_pool,
     .factors = pool_factors,
     .reference = run_average_pool},
    {.name = "global_average_pool",
     .infer = infer_global,
     .factors = global_factors,
     .reference = run_global_average},
    {.name = "global_max_pool",
     .infer = infer_global,
     .factors = global_factors,
     .reference = run_global_max},
};

}  // namespace

std::span<const OpDef> pool_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
