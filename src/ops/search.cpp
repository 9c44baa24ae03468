#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "attribute_form.hpp"
#include "elements.hpp"
#include "tables.hpp"

namespace tilemesh::ops {
namespace {

// --- arg_max, arg_min --------------------------------------------------------------------------

void arg_form(AttributeForm& form) {
  form.axis("axis", form.rank(), 0);
  form.flag("keepdims", true);
  form.flag("select_last_index", false);
}

int axis_of(const OpCall& call) {
  return static_cast<int>(call.attributes.integer("axis"));
}

std::vector<OperandType> infer_arg(const OpCall& call) {
  require_type(call, 0, Types::number);
  const Shape& in = call.inputs[0].shape;
  const int axis = axis_of(call);
  if (in[axis] == 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("dim {} of {} has no elements to choose from", axis, in.to_string()));
  }
  Dims sizes = in.sizes();
  if (call.attributes.integer("keepdims") != 0) {
    sizes[static_cast<std::size_t>(axis)] = 1;
  } else {
    sizes.erase(static_cast<std::size_t>(axis));
  }
  return {rows(DType::i64, Shape(sizes))};
}

Factors arg_factors(const OpCall& call) {
  const int axis = axis_of(call);
  const bool keeps = call.attributes.integer("keepdims") != 0;
  FactorBuilder builder(call);
  for (int d = 0; d < call.inputs[0].shape.rank(); ++d) {
    if (d != axis) builder.share(d, d > axis && !keeps ? d - 1 : d);
  }
  return builder.build();
}

/// True if `value` takes the place of `best`; `last` prefers the later of equal ones. NaN is chosen
/// over every number, as reduce_max and reduce_min choose it.
template <class T>
bool replaces(T value, T best, bool largest, bool last) {
  if (is_nan(value) || is_nan(best)) return is_nan(value) && (last || !is_nan(best));
  return value == best ? last : largest ? value > best : value < best;
}

template <bool largest>
void run_arg(const OpCall& call, Inputs inputs, Outputs outputs) {
  const AxisView view = around(call.inputs[0].shape, axis_of(call));
  const bool last = call.attributes.integer("select_last_index") != 0;
  auto places = zeros<std::int64_t>(view.outer * view.inner);
  visit_wide(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Loaded<T> x(inputs[0], call.inputs[0]);
    for (std::int64_t lane = 0; lane < view.outer * view.inner; ++lane) {
      const std::int64_t first = lane / view.inner * view.size * view.inner + lane % view.inner;
      std::int64_t best = 0;
      for (std::int64_t k = 1; k < view.size; ++k) {
        if (replaces(x[first + k * view.inner], x[first + best * view.inner], largest, last)) {
          best = k;
        }
      }
      places[static_cast<std::size_t>(lane)] = best;
    }
  });
  store(places, call.outputs[0], outputs[0]);
}

// --- top_k -------------------------------------------------------------------------------------

void top_k_form(AttributeForm& form) {
  form.axis("axis", form.rank(), -1);
  form.integer("k", {.min = 0});
  form.flag("largest", true);
  form.flag("sorted", true);  // the result is sorted whether asked for or not
}

std::vector<OperandType> infer_top_k(const OpCall& call) {
  require_type(call, 0, Types::number);
  const Shape& in = call.inputs[0].shape;
  const int axis = axis_of(call);
  const std::int64_t k = call.attributes.integer("k");
  if (k > in[axis]) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("k of {} is outside [0,{}], the size of dim {} of {}", k, in[axis],
                            axis, in.to_string()));
  }
  return {rows(call.inputs[0].dtype, in.with(axis, k)), rows(DType::i64, in.with(axis, k))};
}

Factors top_k_factors(const OpCall& call) {
  return all_but_axis(call, axis_of(call));
}

/// Orders values with NaN as the largest, so that the order is total.
template <class T>
bool above(T a, T b) {
  if (is_nan(a) || is_nan(b)) return is_nan(a) && !is_nan(b);
  return a > b;
}

template <class T>
void top_k(const OpCall& call, Inputs inputs, Outputs outputs) {
  const AxisView view = around(call.inputs[0].shape, axis_of(call));
  const std::int64_t k = call.outputs[0].shape[axis_of(call)];
  const bool largest = call.attributes.integer("largest") != 0;
  const Loaded<T> x(inputs[0], call.inputs[0]);
  auto values = zeros<T>(view.outer * k * view.inner);
  auto indices = zeros<std::int64_t>(view.outer * k * view.inner);
  std::vector<std::int64_t> order(static_cast<std::size_t>(view.size));
  for (std::int64_t lane = 0; lane < view.outer * view.inner; ++lane) {
    const std::int64_t outer = lane / view.inner;
    const std::int64_t inner = lane % view.inner;
    const auto at = [&](std::int64_t i) {
      return x[(outer * view.size + i) * view.inner + inner];
    };
    std::iota(order.begin(), order.end(), 0);
    // Of equal ones the first comes first.
    std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) {
      return largest ? above(at(a), at(b)) : above(at(b), at(a));
    });
    for (std::int64_t i = 0; i < k; ++i) {
      const auto place = static_cast<std::size_t>((outer * k + i) * view.inner + inner);
      indices[place] = order[static_cast<std::size_t>(i)];
      values[place] = at(indices[place]);
    }
  }
  if (has_output(call, outputs, 0)) store(values, call.outputs[0], outputs[0]);
  if (has_output(call, outputs, 1)) store(indices, call.outputs[1], outputs[1]);
}

void run_top_k(const OpCall& call, Inputs inputs, Outputs outputs) {
  visit_wide(call.inputs[0].dtype,
             [&](auto tag) { top_k<typename decltype(tag)::type>(call, inputs, outputs); });
}

constexpr OpDef arg(std::string_view name, decltype(OpDef::reference) reference) {
  return {.name = name,
          .canonical = arg_form,
          .infer = infer_arg,
          .factors = arg_factors,
          .reference = reference};
}

constexpr OpDef kOps[] = {
    arg("arg_max", run_arg<true>),
    arg("arg_min", run_arg<false>),
    {.name = "top_k",
     .min_outputs = 2,
     .max_outputs = 2,
     .required_outputs = 0,
     .canonical = top_k_form,
     .infer = infer_top_k,
     .factors = top_k_factors,
     .reference = run_top_k},
};

}  // namespace

std::span<const OpDef> search_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
