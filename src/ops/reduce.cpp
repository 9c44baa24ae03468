#include <algorithm>
#include <cmath>
#include <limits>

#include "tilemesh/ops/derived.hpp"

#include "attribute_form.hpp"
#include "scalar.hpp"
#include "tables.hpp"

namespace tilemesh::ops {
namespace {

/// What the reductions differ in.
enum class Kind { sum, mean, max, min, prod, l1, l2, log_sum, log_sum_exp, sum_square };

/// Without axes, or with an empty list, all dims are reduced.
void reduce_form(AttributeForm& form) {
  form.axes("axes", form.rank());
  form.flag("keepdims", true);
}

bool keeps_dims(const OpCall& call) {
  return call.attributes.integer("keepdims") != 0;
}

template <Types types>
std::vector<OperandType> infer_reduce(const OpCall& call) {
  require_type(call, 0, types);
  const std::vector<bool> reduced = reduced_dims(call);
  Dims sizes;
  for (int d = 0; d < call.inputs[0].shape.rank(); ++d) {
    if (!reduced[static_cast<std::size_t>(d)]) {
      sizes.push_back(call.inputs[0].shape[d]);
    } else if (keeps_dims(call)) {
      sizes.push_back(1);
    }
  }
  return {rows(call.inputs[0].dtype, Shape(sizes))};
}

/// How the parts of a cut reduction are put together, if they can be.
struct Combine {
  bool possible = false;
  ReduceOp op = ReduceOp::sum;
};
constexpr Combine combine_of(Kind kind) {
  switch (kind) {
    case Kind::sum:
    case Kind::l1:
    case Kind::sum_square: return {true, ReduceOp::sum};
    case Kind::mean: return {true, ReduceOp::mean};
    case Kind::max: return {true, ReduceOp::max};
    case Kind::min: return {true, ReduceOp::min};
    case Kind::prod: return {true, ReduceOp::prod};
    default: return {};
  }
}

template <Kind kind>
Factors reduce_factors(const OpCall& call) {
  constexpr Combine kCombine = combine_of(kind);
  const std::vector<bool> reduced = reduced_dims(call);
  // A mean of integers is cut off, and a mean of those is another.
  const bool combines = kCombine.possible && (kind != Kind::mean || is_float(call.inputs[0].dtype));
  FactorBuilder builder(call);
  builder.reduction(kCombine.op);
  int out = 0;
  for (int d = 0; d < call.inputs[0].shape.rank(); ++d) {
    if (!reduced[static_cast<std::size_t>(d)]) {
      builder.share(d, out++);
      continue;
    }
    if (keeps_dims(call)) ++out;
    if (combines) builder.input(0, d, builder.add());
  }
  return builder.build();
}

/// Strides that lead from an index of input 0 to its place in the output.
Dims output_strides(const OpCall& call) {
  const Shape& in = call.inputs[0].shape;
  const std::vector<bool> reduced = reduced_dims(call);
  Dims strides = zero_index(in);
  std::int64_t step = 1;
  for (int d = in.rank() - 1; d >= 0; --d) {
    const auto at = static_cast<std::size_t>(d);
    if (reduced[at]) continue;
    strides[at] = step;
    step *= in[d];
  }
  return strides;
}

/// Calls `visit(output index, value)` for every element of input 0, in order.
template <class T, class Visit>
void each_element(const OpCall& call, Inputs inputs, const Visit& visit) {
  const Shape& shape = call.inputs[0].shape;
  const Loaded<T> x(inputs[0], call.inputs[0]);
  const Dims strides = output_strides(call);
  Dims index = zero_index(shape);
  for (std::int64_t i = 0; i < shape.element_count(); ++i, next_index(index, shape)) {
    visit(static_cast<std::size_t>(dot(index, strides)), x[i]);
  }
}

/// The value of a reduction of nothing.
template <class T>
T neutral(Kind kind, DType dtype) {
  if (kind == Kind::prod) return 1;
  if (kind != Kind::max && kind != Kind::min) return 0;
  if constexpr (std::is_same_v<T, double>) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return kind == Kind::max ? -kInfinity : kInfinity;
  } else {
    const auto [low, high] = integer_range(dtype);
    return kind == Kind::max ? static_cast<T>(low) : static_cast<T>(high);
  }
}

template <class T>
T magnitude(T x) {
  return x < T{} ? wrapping_sub(T{}, x) : x;
}

template <class T>
T combined(Kind kind, T sum, T x) {
  switch (kind) {
    case Kind::max: return x > sum || is_nan(x) ? x : sum;  // NaN wins
    case Kind::min: return x < sum || is_nan(x) ? x : sum;
    case Kind::prod: return wrapping_mul(sum, x);
    case Kind::l1: return wrapping_add(sum, magnitude(x));
    case Kind::l2:
    case Kind::sum_square: return wrapping_add(sum, wrapping_mul(x, x));
    default: return wrapping_add(sum, x);
  }
}

/// What becomes of a sum over `count` elements.
template <class T>
T finished(Kind kind, T sum, std::int64_t count) {
  if constexpr (std::is_same_v<T, double>) {
    if (kind == Kind::mean) return sum / static_cast<double>(count);
    if (kind == Kind::l2) return std::sqrt(sum);
    if (kind == Kind::log_sum) return std::log(sum);
  } else if (kind == Kind::mean) {
    return count == 0 ? T{} : static_cast<T>(sum / static_cast<T>(count));
  }
  return sum;
}

template <class T>
void reduce(const OpCall& call, Inputs inputs, Outputs outputs, Kind kind) {
  const Shape& out = call.outputs[0].shape;
  std::vector<T> sums(static_cast<std::size_t>(out.element_count()),
                      neutral<T>(kind, call.inputs[0].dtype));
  each_element<T>(call, inputs,
                  [&](std::size_t at, T x) { sums[at] = combined(kind, sums[at], x); });
  const std::int64_t count =
      out.element_count() == 0 ? 0 : call.inputs[0].shape.element_count() / out.element_count();
  for (T& sum : sums) {
    sum = finished(kind, sum, count);
  }
  store(sums, call.outputs[0], outputs[0]);
}

template <Kind kind>
void run_reduce(const OpCall& call, Inputs inputs, Outputs outputs) {
  // Of integers these two are seldom whole: computed in double, and stored as a cast would.
  if constexpr (kind == Kind::l2 || kind == Kind::log_sum) {
    return reduce<double>(call, inputs, outputs, kind);
  }
  visit_wide(call.inputs[0].dtype,
             [&](auto tag) { reduce<typename decltype(tag)::type>(call, inputs, outputs, kind); });
}

/// In double for all dtypes; the largest value is taken out first, so that nothing overflows.
void run_log_sum_exp(const OpCall& call, Inputs inputs, Outputs outputs) {
  const auto count = static_cast<std::size_t>(call.outputs[0].shape.element_count());
  std::vector<double> tops(count, -std::numeric_limits<double>::infinity());
  each_element<double>(
      call, inputs, [&](std::size_t at, double x) { tops[at] = combined(Kind::max, tops[at], x); });
  std::vector<double> sums(count);
  each_element<double>(call, inputs, [&](std::size_t at, double x) {
    sums[at] += std::isinf(tops[at]) ? (x == tops[at] ? 1 : 0) : std::exp(x - tops[at]);
  });
  for (std::size_t i = 0; i < count; ++i) {
    sums[i] = std::log(sums[i]) + tops[i];
  }
  store(sums, call.outputs[0], outputs[0]);
}

template <Kind kind, Types types = Types::number>
constexpr OpDef reduction(std::string_view name) {
  return {.name = name,
          .canonical = reduce_form,
          .infer = infer_reduce<types>,
          .factors = reduce_factors<kind>,
          .reference = kind == Kind::log_sum_exp ? run_log_sum_exp : run_reduce<kind>,
          .partial = kind == Kind::sum ? PartialRule::sums : PartialRule::none};
}

constexpr OpDef kOps[] = {
    reduction<Kind::sum>("reduce_sum"),
    reduction<Kind::mean>("reduce_mean"),
    reduction<Kind::max, Types::any>("reduce_max"),
    reduction<Kind::min, Types::any>("reduce_min"),
    reduction<Kind::prod>("reduce_prod"),
    reduction<Kind::l1>("reduce_l1"),
    reduction<Kind::l2>("reduce_l2"),
    reduction<Kind::log_sum>("reduce_log_sum"),
    reduction<Kind::log_sum_exp>("reduce_log_sum_exp"),
    reduction<Kind::sum_square>("reduce_sum_square"),
};

}  // namespace

std::span<const OpDef> reduce_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
