#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "attribute_form.hpp"
#include "elements.hpp"
#include "tables.hpp"

namespace tilemesh::ops {
namespace {

void epsilon_form(AttributeForm& form) {
  form.number("epsilon", 1e-5);
}
double epsilon_of(const OpCall& call) {
  return call.attributes.number("epsilon");
}

OperandType like_input(const OpCall& call) {
  return rows(call.inputs[0].dtype, call.inputs[0].shape);
}

/// Checks x [N, C, ...] and that all other inputs have one number per channel.
std::vector<OperandType> infer_per_channel(const OpCall& call) {
  require_rank(call, 0, 2, true);
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    require_type(call, i, Types::real);
    if (i > 0) require_shape(call, i, Shape{call.inputs[0].shape[1]}, "one number per channel");
  }
  return {like_input(call)};
}

Factors per_channel_factors(const OpCall& call, int dims) {
  FactorBuilder builder(call);
  for (int d = 0; d < dims; ++d) {
    const int factor = builder.add();
    builder.input(0, d, factor);
    builder.output(0, d, factor);
    for (std::size_t i = 1; d == 1 && i < call.inputs.size(); ++i) {
      builder.input(i, 0, factor);
    }
  }
  return builder.build();
}
Factors batch_norm_factors(const OpCall& call) {
  return per_channel_factors(call, call.inputs[0].shape.rank());
}
Factors instance_norm_factors(const OpCall& call) {
  return per_channel_factors(call, 2);
}

void run_batch_norm(const OpCall& call, Inputs inputs, Outputs outputs) {
  const double epsilon = epsilon_of(call);
  const Loaded<double> x(inputs[0], call.inputs[0]);
  const Loaded<double> scale(inputs[1], call.inputs[1]);
  const Loaded<double> bias(inputs[2], call.inputs[2]);
  const Loaded<double> mean(inputs[3], call.inputs[3]);
  const Loaded<double> variance(inputs[4], call.inputs[4]);
  const AxisView view = around(call.inputs[0].shape, 1);
  auto y = zeros<double>(call.inputs[0].shape.element_count());
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(y.size()); ++i) {
    const std::int64_t c = i / view.inner % view.size;
    y[static_cast<std::size_t>(i)] =
        (x[i] - mean[c]) / std::sqrt(variance[c] + epsilon) * scale[c] + bias[c];
  }
  store(y, call.outputs[0], outputs[0]);
}

/// Mean and reciprocal deviation of some elements.
struct Moments {
  double mean = 0;
  double inverse = 0;
};
Moments moments(const double* x, std::int64_t count, double epsilon) {
  Moments result;
  const auto n = static_cast<double>(count);
  std::for_each(x, x + count, [&](double value) { result.mean += value; });
  result.mean /= n;
  double squares = 0;
  std::for_each(x, x + count,
                [&](double value) { squares += (value - result.mean) * (value - result.mean); });
  result.inverse = 1 / std::sqrt(squares / n + epsilon);
  return result;
}

void run_instance_norm(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Loaded<double> x(inputs[0], call.inputs[0]);
  const Loaded<double> scale(inputs[1], call.inputs[1]);
  const Loaded<double> bias(inputs[2], call.inputs[2]);
  const AxisView view = around(call.inputs[0].shape, 1);
  auto y = zeros<double>(call.inputs[0].shape.element_count());
  for (std::int64_t plane = 0; plane < view.outer * view.size; ++plane) {
    const std::int64_t first = plane * view.inner;
    const std::int64_t c = plane % view.size;
    const Moments m = moments(x.data() + first, view.inner, epsilon_of(call));
    for (std::int64_t i = first; i < first + view.inner; ++i) {
      y[static_cast<std::size_t>(i)] = (x[i] - m.mean) * m.inverse * scale[c] + bias[c];
    }
  }
  store(y, call.outputs[0], outputs[0]);
}

void layer_norm_form(AttributeForm& form) {
  form.axis("axis", form.rank(), -1);
  epsilon_form(form);
}

int layer_axis(const OpCall& call) {
  return static_cast<int>(call.attributes.integer("axis"));
}

/// The dims that are normalised.
Shape layer_shape(const OpCall& call) {
  const Shape& x = call.inputs[0].shape;
  return Shape(std::span(x.begin() + layer_axis(call), x.end()));
}

std::vector<OperandType> infer_layer_norm(const OpCall& call) {
  const Shape& x = call.inputs[0].shape;
  const int axis = layer_axis(call);
  const Shape normalised = layer_shape(call);
  for (std::size_t i = 0; i < own_input_count(call); ++i) {
    if (!has_input(call, i)) continue;
    require_type(call, i, Types::real);
    if (i > 0 && broadcast(call.inputs[i].shape, normalised) != normalised) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("input {} wants a shape that broadcasts to {}, got {}", i,
                              normalised.to_string(), call.inputs[i].shape.to_string()));
    }
  }
  Shape statistics = x;
  for (int d = axis; d < x.rank(); ++d) {
    statistics = statistics.with(d, 1);
  }
  std::vector<OperandType> outputs{like_input(call), rows(DType::f32, statistics),
                                   rows(DType::f32, statistics)};
  outputs.resize(wanted_outputs(call));
  return outputs;
}

Factors layer_norm_factors(const OpCall& call) {
  FactorBuilder builder(call);
  for (int d = 0; d < layer_axis(call); ++d) {
    const int factor = builder.add();
    builder.input(0, d, factor);
    for (std::size_t o = 0; o < call.outputs.size(); ++o) {
      builder.output(o, d, factor);
    }
  }
  return builder.build();
}

void run_layer_norm(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Shape normalised = layer_shape(call);
  const std::int64_t size = normalised.element_count();
  const Shape& shape = call.inputs[0].shape;
  const std::int64_t lanes =
      Shape(std::span(shape.begin(), shape.begin() + layer_axis(call))).element_count();
  const Loaded<double> x(inputs[0], call.inputs[0]);
  const Loaded<double> scale(inputs[1], call.inputs[1], normalised);
  std::vector<double> bias = zeros<double>(size);
  if (has_input(call, 2)) {
    const Loaded<double> given(inputs[2], call.inputs[2], normalised);
    std::copy(given.data(), given.data() + size, bias.begin());
  }
  auto y = zeros<double>(shape.element_count());
  std::vector<double> means;
  std::vector<double> inverses;
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    const double* from = x.data() + lane * size;
    const Moments m = moments(from, size, epsilon_of(call));
    for (std::int64_t i = 0; i < size; ++i) {
      y[static_cast<std::size_t>(lane * size + i)] =
          (from[i] - m.mean) * m.inverse * scale[i] + bias[static_cast<std::size_t>(i)];
    }
    means.push_back(m.mean);
    inverses.push_back(m.inverse);
  }
  if (has_output(call, outputs, 0)) store(y, call.outputs[0], outputs[0]);
  if (has_output(call, outputs, 1)) store(means, call.outputs[1], outputs[1]);
  if (has_output(call, outputs, 2)) store(inverses, call.outputs[2], outputs[2]);
}

void lrn_form(AttributeForm& form) {
  form.integer("size", {.min = 1});
  form.number("alpha", 1e-4);
  form.number("beta", 0.75);
  form.number("bias", 1);
}

std::vector<OperandType> infer_lrn(const OpCall& call) {
  require_type(call, 0, Types::real);
  require_rank(call, 0, 2, true);
  return {like_input(call)};
}

Factors lrn_factors(const OpCall& call) {
  return all_but_axis(call, 1);
}

void run_lrn(const OpCall& call, Inputs inputs, Outputs outputs) {
  const double alpha = call.attributes.number("alpha");
  const double beta = call.attributes.number("beta");
  const double bias = call.attributes.number("bias");
  const std::int64_t size = call.attributes.integer("size");
  const Loaded<double> x(inputs[0], call.inputs[0]);
  const AxisView view = around(call.inputs[0].shape, 1);
  const std::int64_t before = std::min((size - 1) / 2, view.size);
  const std::int64_t after = std::min(size - 1 - (size - 1) / 2, view.size);
  auto y = zeros<double>(call.inputs[0].shape.element_count());
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(y.size()); ++i) {
    const std::int64_t c = i / view.inner % view.size;
    double squares = 0;
    for (std::int64_t k = std::max<std::int64_t>(c - before, 0);
         k <= std::min(c + after, view.size - 1); ++k) {
      const double value = x[i + (k - c) * view.inner];
      squares += value * value;
    }
    y[static_cast<std::size_t>(i)] =
        x[i] / std::pow(bias + alpha / static_cast<double>(size) * squares, beta);
  }
  store(y, call.outputs[0], outputs[0]);
}

constexpr OpDef kOps[] = {
    {.name = "batch_normalization",
     .min_inputs = 5,
     .max_inputs = 5,
     .canonical = epsilon_form,
     .infer = infer_per_channel,
     .factors = batch_norm_factors,
     .reference = run_batch_norm},
    {.name = "instance_normalization",
     .min_inputs = 3,
     .max_inputs = 3,
     .canonical = epsilon_form,
     .infer = infer_per_channel,
     .factors = instance_norm_factors,
     .reference = run_instance_norm},
    {.name = "layer_normalization",
     .min_inputs = 2,
     .max_inputs = 3,
     .max_outputs = 3,
     .required_outputs = 0,
     .canonical = layer_norm_form,
     .infer = infer_layer_norm,
     .factors = layer_norm_factors,
     .reference = run_layer_norm},
    {.name = "lrn",
     .canonical = lrn_form,
     .infer = infer_lrn,
     .factors = lrn_factors,
     .reference = run_lrn},
};

}  // namespace

std::span<const OpDef> norm_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
