#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/math.hpp"

#include "attribute_form.hpp"
#include "elements.hpp"
#include "tables.hpp"

/// Ops whose number of results depends on the data. Shapes are static, so each gives room for the
/// most that there can be, filled up behind what was found, and a scalar that says how many were
/// found.
namespace tilemesh::ops {
namespace {

OperandType count_type() {
  return rows(DType::i64, Shape{});
}

void store_count(const OpCall& call, Outputs outputs, std::size_t index, std::int64_t count) {
  if (has_output(call, outputs, index)) {
    store(std::vector<std::int64_t>{count}, call.outputs[index], outputs[index]);
  }
}

// compress: the slices of input 0 along an axis for which input 1 holds; zeros behind them.

void canonical_compress(AttributeForm& form) {
  form.axis("axis", form.rank(), 0);
}

std::vector<OperandType> infer_compress(const OpCall& call) {
  require_rank(call, 0, 1, true);
  require_type(call, 1, Types::boolean);
  require_rank(call, 1, 1);
  const Shape& x = call.inputs[0].shape;
  const auto axis = static_cast<int>(call.attributes.integer("axis"));
  const std::int64_t wanted = call.inputs[1].shape[0];
  if (wanted > x[axis]) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the condition has {} elements, axis {} of {} has {}", wanted, axis,
                            x.to_string(), x[axis]));
  }
  return {rows(call.inputs[0].dtype, x.with(axis, wanted)), count_type()};
}

void run_compress(const OpCall& call, Inputs inputs, Outputs outputs) {
  const auto axis = static_cast<int>(call.attributes.integer("axis"));
  const AxisView in = around(call.inputs[0].shape, axis);
  const AxisView out = around(call.outputs[0].shape, axis);
  const std::int64_t bytes = in.inner * size_of(call.inputs[0].dtype);
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < out.size; ++i) {
    if (inputs[1][i] != std::byte{0}) chosen.push_back(i);
  }
  if (has_output(call, outputs, 0)) {
    std::byte* to = outputs[0];
    for (std::int64_t o = 0; o < out.outer; ++o) {
      for (const std::int64_t i : chosen) {
        const std::byte* from = inputs[0] + (o * in.size + i) * bytes;
        to = std::copy(from, from + bytes, to);
      }
      to = std::fill_n(to, (out.size - std::ssize(chosen)) * bytes, std::byte{0});
    }
  }
  store_count(call, outputs, 1, std::ssize(chosen));
}

// non_zero: the indices of input 0's elements that aren't zero, a column each; -1 behind them.

std::vector<OperandType> infer_non_zero(const OpCall& call) {
  const Shape& x = call.inputs[0].shape;
  return {rows(DType::i64, Shape{x.rank(), x.element_count()}), count_type()};
}

void run_non_zero(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Shape& x = call.inputs[0].shape;
  const std::int64_t size = x.element_count();
  const Dims strides = row_major_strides(x);
  std::vector<std::int64_t> places(static_cast<std::size_t>(x.rank() * size), -1);
  std::int64_t count = 0;
  visit_wide(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Loaded<T> values(inputs[0], call.inputs[0]);
    for (std::int64_t i = 0; i < size; ++i) {
      if (values[i] == T{}) continue;
      for (int d = 0; d < x.rank(); ++d) {
        places[static_cast<std::size_t>(d * size + count)] =
            i / strides[static_cast<std::size_t>(d)] % x[d];
      }
      ++count;
    }
  });
  if (has_output(call, outputs, 0)) store(places, call.outputs[0], outputs[0]);
  store_count(call, outputs, 1, count);
}

// unique: the different slices of input 0 along an axis. Outputs: they, how many, where each comes
// first, which of them every slice of the input is, and how often each is there. Filled up with
// zeros, -1 and 0.

void canonical_unique(AttributeForm& form) {
  form.axis("axis", form.rank(), 0);
  form.flag("sorted", true);
}

std::vector<OperandType> infer_unique(const OpCall& call) {
  require_rank(call, 0, 1, true);
  const Shape& x = call.inputs[0].shape;
  const OperandType each =
      rows(DType::i64, Shape{x[static_cast<int>(call.attributes.integer("axis"))]});
  return {rows(call.inputs[0].dtype, x), count_type(), each, each, each};
}

/// Orders slices along an axis by their elements; all that isn't a number is equal, and last.
template <class T>
class Slices {
 public:
  Slices(const T* data, const AxisView& view) : data_(data), view_(view) {}

  int compare(std::int64_t a, std::int64_t b) const {
    for (std::int64_t o = 0; o < view_.outer; ++o) {
      for (std::int64_t i = 0; i < view_.inner; ++i) {
        const T x = data_[(o * view_.size + a) * view_.inner + i];
        const T y = data_[(o * view_.size + b) * view_.inner + i];
        if (x == y || (is_nan(x) && is_nan(y))) continue;
        return x < y || is_nan(y) ? -1 : 1;
      }
    }
    return 0;
  }

 private:
  const T* data_;
  AxisView view_;
};

/// What unique finds: for each of the different slices where it comes first and how often it is
/// there, and for every slice of the input which of them it is.
struct Different {
  std::vector<std::int64_t> first, often, which;
};

template <class T>
Different find_different(const Slices<T>& slices, std::int64_t size, bool sorted) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return slices.compare(a, b) < 0; });
  Different result;
  result.which.resize(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || slices.compare(order[i - 1], order[i]) != 0) {
      result.first.push_back(order[i]);
      result.often.push_back(0);
    }
    ++result.often.back();
    result.which[static_cast<std::size_t>(order[i])] = std::ssize(result.first) - 1;
  }
  if (sorted) return result;
  // In the order in which they come first.
  std::vector<std::int64_t> by_first(result.first.size());
  std::iota(by_first.begin(), by_first.end(), 0);
  std::ranges::sort(by_first, {},
                    [&](std::int64_t i) { return result.first[static_cast<std::size_t>(i)]; });
  Different ordered;
  ordered.which = std::move(result.which);
  std::vector<std::int64_t> place(by_first.size());
  for (const std::int64_t i : by_first) {
    place[static_cast<std::size_t>(i)] = std::ssize(ordered.first);
    ordered.first.push_back(result.first[static_cast<std::size_t>(i)]);
    ordered.often.push_back(result.often[static_cast<std::size_t>(i)]);
  }
  for (std::int64_t& which : ordered.which) {
    which = place[static_cast<std::size_t>(which)];
  }
  return ordered;
}

void store_slices(const OpCall& call, const std::vector<std::int64_t>& chosen, Inputs inputs,
                  Outputs outputs) {
  const AxisView view =
      around(call.inputs[0].shape, static_cast<int>(call.attributes.integer("axis")));
  const std::int64_t bytes = view.inner * size_of(call.inputs[0].dtype);
  std::byte* to = outputs[0];
  for (std::int64_t o = 0; o < view.outer; ++o) {
    for (const std::int64_t i : chosen) {
      const std::byte* from = inputs[0] + (o * view.size + i) * bytes;
      to = std::copy(from, from + bytes, to);
    }
    to = std::fill_n(to, (view.size - std::ssize(chosen)) * bytes, std::byte{0});
  }
}

void run_unique(const OpCall& call, Inputs inputs, Outputs outputs) {
  const AxisView view =
      around(call.inputs[0].shape, static_cast<int>(call.attributes.integer("axis")));
  const bool sorted = call.attributes.integer("sorted") != 0;
  Different found = visit_wide(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Loaded<T> x(inputs[0], call.inputs[0]);
    return find_different(Slices<T>(x.data(), view), view.size, sorted);
  });
  if (has_output(call, outputs, 0)) store_slices(call, found.first, inputs, outputs);
  store_count(call, outputs, 1, std::ssize(found.first));
  found.first.resize(static_cast<std::size_t>(view.size), -1);
  found.often.resize(static_cast<std::size_t>(view.size), 0);
  if (has_output(call, outputs, 2)) store(found.first, call.outputs[2], outputs[2]);
  if (has_output(call, outputs, 3)) store(found.which, call.outputs[3], outputs[3]);
  if (has_output(call, outputs, 4)) store(found.often, call.outputs[4], outputs[4]);
}

constexpr OpDef kOps[] = {
    {.name = "compress",
     .min_inputs = 2,
     .max_inputs = 2,
     .min_outputs = 2,
     .max_outputs = 2,
     .canonical = canonical_compress,
     .infer = infer_compress,
     .factors = no_factors,
     .reference = run_compress},
    {.name = "non_zero",
     .min_outputs = 2,
     .max_outputs = 2,
     .infer = infer_non_zero,
     .factors = no_factors,
     .reference = run_non_zero},
    {.name = "unique",
     .min_outputs = 5,
     .max_outputs = 5,
     .canonical = canonical_unique,
     .infer = infer_unique,
     .factors = no_factors,
     .reference = run_unique},
};

}  // namespace

std::span<const OpDef> bounded_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
