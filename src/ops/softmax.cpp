#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "attribute_form.hpp"
#include "elements.hpp"
#include "tables.hpp"

namespace tilemesh::ops {
namespace {

void lane_form(AttributeForm& form) {
  form.axis("axis", form.rank(), -1);
}

int lane_axis(const OpCall& call) {
  return static_cast<int>(call.attributes.integer("axis"));
}

std::vector<OperandType> infer_lanes(const OpCall& call) {
  require_type(call, 0, Types::real);
  return {rows(call.inputs[0].dtype, call.inputs[0].shape)};
}

Factors lane_factors(const OpCall& call) {
  return all_but_axis(call, lane_axis(call));
}

/// Calls `lane(values)` on every line of input 0 along the axis, in double; stores what it leaves.
template <class Lane>
void each_lane(const OpCall& call, Inputs inputs, Outputs outputs, const Lane& lane) {
  const Shape& shape = call.inputs[0].shape;
  const AxisView view = around(shape, lane_axis(call));
  const Loaded<double> x(inputs[0], call.inputs[0]);
  auto y = zeros<double>(shape.element_count());
  auto values = zeros<double>(view.size);
  for (std::int64_t o = 0; o < view.outer; ++o) {
    for (std::int64_t i = 0; i < view.inner; ++i) {
      const std::int64_t first = o * view.size * view.inner + i;
      for (std::int64_t k = 0; k < view.size; ++k) {
        values[static_cast<std::size_t>(k)] = x[first + k * view.inner];
      }
      lane(values);
      for (std::int64_t k = 0; k < view.size; ++k) {
        y[static_cast<std::size_t>(first + k * view.inner)] = values[static_cast<std::size_t>(k)];
      }
    }
  }
  store(y, call.outputs[0], outputs[0]);
}

/// Subtracts the largest value, and gives the sum of the exponentials of what is left.
double exponential_sum(std::vector<double>& values) {
  const double top = *std::ranges::max_element(values);
  double sum = 0;
  for (double& value : values) {
    value -= top;
    sum += std::exp(value);
  }
  return sum;
}

void run_softmax(const OpCall& call, Inputs inputs, Outputs outputs) {
  each_lane(call, inputs, outputs, [](std::vector<double>& values) {
    if (values.empty()) return;
    const double sum = exponential_sum(values);
    for (double& value : values) {
      value = std::exp(value) / sum;
    }
  });
}

void run_log_softmax(const OpCall& call, Inputs inputs, Outputs outputs) {
  each_lane(call, inputs, outputs, [](std::vector<double>& values) {
    if (values.empty()) return;
    const double log_sum = std::log(exponential_sum(values));
    for (double& value : values) {
      value -= log_sum;
    }
  });
}

void run_hardmax(const OpCall& call, Inputs inputs, Outputs outputs) {
  each_lane(call, inputs, outputs, [](std::vector<double>& values) {
    // NaN is the top where there is one: as arg_max has it.
    auto top = std::ranges::find_if(values, [](double value) { return std::isnan(value); });
    if (top == values.end()) top = std::ranges::max_element(values);
    for (auto at = values.begin(); at != values.end(); ++at) {
      if (at != top) *at = 0;
    }
    if (top != values.end()) *top = 1;
  });
}

void lp_form(AttributeForm& form) {
  lane_form(form);
  form.integer("p", {.fallback = 2, .min = 1, .max = 2});
}

void run_lp(const OpCall& call, Inputs inputs, Outputs outputs) {
  const bool absolute = call.attributes.integer("p") == 1;
  each_lane(call, inputs, outputs, [=](std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) {
      sum += absolute ? std::abs(value) : value * value;
    }
    const double norm = absolute ? sum : std::sqrt(sum);
    if (norm == 0) return;  // a lane of zeros stays so
    for (double& value : values) {
      value /= norm;
    }
  });
}

constexpr OpDef lanes(std::string_view name, decltype(OpDef::reference) reference) {
  return {.name = name,
          .canonical = lane_form,
          .infer = infer_lanes,
          .factors = lane_factors,
          .reference = reference};
}

constexpr OpDef kOps[] = {
    lanes("softmax", run_softmax),
    lanes("log_softmax", run_log_softmax),
    lanes("hardmax", run_hardmax),
    {.name = "lp_normalization",
     .canonical = lp_form,
     .infer = infer_lanes,
     .factors = lane_factors,
     .reference = run_lp},
};

}  // namespace

std::span<const OpDef> softmax_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
