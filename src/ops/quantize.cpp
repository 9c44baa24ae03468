#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/math.hpp"

#include "attribute_form.hpp"
#include "elements.hpp"
#include "quantized.hpp"
#include "tables.hpp"

/// Linear quantization: integers of few bits that stand for reals, real = (integer - zero point) *
/// scale. Scales and zero points broadcast to the operand: one for all, or one for each index of a
/// dim. In blocks they broadcast to a tensor of one element for every `block_size` of dim `axis`.
namespace tilemesh::ops {
namespace {

constexpr std::array kQuantized = {DType::u8, DType::i8, DType::u16, DType::i16};
constexpr std::size_t kScale = 1;
constexpr std::size_t kZeroPoint = 2;
constexpr std::size_t kBias = 3;

bool is_quantized(DType dtype) {
  return std::ranges::find(kQuantized, dtype) != kQuantized.end();
}

void require_float(const OpCall& call, std::size_t index) {
  if (is_float(call.inputs[index].dtype)) return;
  throw Error(ErrorCode::invalid_argument, fmt::format("input {} wants a float, got {}", index,
                                                       to_string(call.inputs[index].dtype)));
}

/// The dtype of integers that a call makes: that of its zero point where it has one.
void integer_form(AttributeForm& form) {
  const OpCall& call = form.call();
  form.dtype("dtype", has_input(call, kZeroPoint) ? call.inputs[kZeroPoint].dtype : DType::u8);
}

void block_form(AttributeForm& form) {
  if (form.integer("block_size", {.fallback = 0, .min = 0, .max = std::int64_t{1} << 40}) > 0) {
    form.axis("axis", form.rank());
  } else {
    form.integer("axis", {.fallback = 0, .min = 0, .max = 0});
  }
}

void quantize_form(AttributeForm& form) {
  integer_form(form);
  block_form(form);
}

void dequantize_form(AttributeForm& form) {
  form.dtype("dtype", form.call().inputs[kScale].dtype);
  block_form(form);
}

/// The dim that parameters divide into blocks; -1: none.
int blocked_axis(const OpCall& call) {
  return call.attributes.integer("block_size") > 0
             ? static_cast<int>(call.attributes.integer("axis"))
             : -1;
}

/// The shape that parameters may broadcast to: that of input 0, or of its blocks.
Shape parameter_shape(const OpCall& call, bool may_block) {
  Dims sizes = call.inputs[0].shape.sizes();
  if (const int axis = may_block ? blocked_axis(call) : -1; axis >= 0) {
    auto& size = sizes[static_cast<std::size_t>(axis)];
    // Not ceil_div: a size met in a file may be any.
    const std::int64_t block = call.attributes.integer("block_size");
    size = size / block + (size % block == 0 ? 0 : 1);
  }
  return Shape(sizes);
}

void require_parameters(const OpCall& call, DType zero_point, bool may_block) {
  require_float(call, kScale);
  require_broadcast(call, kScale, parameter_shape(call, may_block));
  if (!has_input(call, kZeroPoint)) return;
  if (call.inputs[kZeroPoint].dtype != zero_point) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("input 2 wants the dtype of the quantized values, {}, got {}",
                            to_string(zero_point), to_string(call.inputs[kZeroPoint].dtype)));
  }
  require_broadcast(call, kZeroPoint, parameter_shape(call, may_block));
}

DType dtype_of(const OpCall& call) {
  return static_cast<DType>(call.attributes.integer("dtype"));
}

std::vector<OperandType> infer_quantize(const OpCall& call) {
  if (const DType dtype = call.inputs[0].dtype; !is_float(dtype) && dtype != DType::i32) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("input 0 wants a float or i32, got {}", to_string(dtype)));
  }
  require_quantized(dtype_of(call), "attribute \"dtype\"");
  require_parameters(call, dtype_of(call), true);
  return {rows(dtype_of(call), call.inputs[0].shape)};
}

std::vector<OperandType> infer_dequantize(const OpCall& call) {
  if (call.inputs[0].dtype != DType::i32) require_quantized(call.inputs[0].dtype, "input 0");
  if (!is_float(dtype_of(call))) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("attribute \"dtype\" wants a float, got {}", to_string(dtype_of(call))));
  }
  require_parameters(call, call.inputs[0].dtype, true);
  return {rows(dtype_of(call), call.inputs[0].shape)};
}

std::vector<OperandType> infer_requantize(const OpCall& call) {
  if (call.inputs[0].dtype != DType::i32) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("input 0 wants i32, got {}", to_string(call.inputs[0].dtype)));
  }
  require_quantized(dtype_of(call), "attribute \"dtype\"");
  require_parameters(call, dtype_of(call), false);
  if (has_input(call, kBias)) {
    require_same_type(call, 0, kBias);
    require_broadcast(call, kBias, call.inputs[0].shape);
  }
  return {rows(dtype_of(call), call.inputs[0].shape)};
}

/// Every dim of the output with the parameters' that go along; dims in blocks stay whole, since a
/// cut could fall inside a block.
Factors blocked_factors(const OpCall& call) {
  const int blocked = blocked_axis(call);
  FactorBuilder builder(call);
  const Shape& out = call.outputs[0].shape;
  for (int d = 0; d < out.rank(); ++d) {
    if (d == blocked) continue;
    const int factor = builder.add();
    builder.output(0, d, factor);
    for (std::size_t i = 0; i < own_input_count(call); ++i) {
      const Shape& in = call.inputs[i].shape;
      const int dim = d - (out.rank() - in.rank());
      if (call.inputs[i].present && dim >= 0 && in[dim] == out[d]) builder.input(i, dim, factor);
    }
  }
  return builder.build();
}

/// A parameter's elements as T, found by the index of the element that they are for; `absent`
/// where there is no such input.
template <class T>
class Parameter {
 public:
  Parameter(const OpCall& call, Inputs inputs, std::size_t input, int blocked = -1)
      : blocked_(blocked) {
    const Shape& shape = call.inputs[0].shape;
    strides_ = zero_index(shape);
    if (!has_input(call, input)) return;
    const Shape& own = call.inputs[input].shape;
    values_ = std::vector<T>(static_cast<std::size_t>(own.element_count()));
    copy_elements(inputs[input], call.inputs[input].dtype, row_major_strides(own),
                  reinterpret_cast<std::byte*>(values_.data()), kDTypeOf<T>, own);
    if (blocked_ >= 0) block_ = call.attributes.integer("block_size");
    const Dims own_strides = row_major_strides(own);
    const int skip = shape.rank() - own.rank();
    for (int d = 0; d < own.rank(); ++d) {
      if (own[d] != 1) {
        strides_[static_cast<std::size_t>(d + skip)] = own_strides[static_cast<std::size_t>(d)];
      }
    }
  }

  T at(const Dims& index) const {
    if (values_.empty()) return T{};
    std::int64_t offset = dot(index, strides_);
    if (blocked_ >= 0) {
      const auto axis = static_cast<std::size_t>(blocked_);
      offset += (index[axis] / block_ - index[axis]) * strides_[axis];
    }
    return values_[static_cast<std::size_t>(offset)];
  }

 private:
  int blocked_;
  std::int64_t block_ = 1;
  Dims strides_;
  std::vector<T> values_;
};

/// Fills output 0 with `value(i, index)` of every element.
template <class T, class ValueAt>
void fill(const OpCall& call, Outputs outputs, const ValueAt& value) {
  auto result = zeros<T>(call.outputs[0].shape.element_count());
  Dims index = zero_index(call.outputs[0].shape);
  for (std::size_t i = 0; i < result.size(); ++i, next_index(index, call.outputs[0].shape)) {
    result[i] = value(static_cast<std::int64_t>(i), std::as_const(index));
  }
  store(result, call.outputs[0], outputs[0]);
}

void run_quantize(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Loaded<float> x(inputs[0], call.inputs[0]);
  const Parameter<float> scale(call, inputs, kScale, blocked_axis(call));
  const Parameter<std::int64_t> zero_point(call, inputs, kZeroPoint, blocked_axis(call));
  fill<std::int64_t>(call, outputs, [&](std::int64_t i, const Dims& index) {
    return quantized(x[i] / scale.at(index), zero_point.at(index), call.outputs[0].dtype);
  });
}

void run_dequantize(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Loaded<std::int64_t> x(inputs[0], call.inputs[0]);
  const Parameter<float> scale(call, inputs, kScale, blocked_axis(call));
  const Parameter<std::int64_t> zero_point(call, inputs, kZeroPoint, blocked_axis(call));
  fill<float>(call, outputs, [&](std::int64_t i, const Dims& index) {
    return static_cast<float>(x[i] - zero_point.at(index)) * scale.at(index);
  });
}

void run_requantize(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Loaded<std::int32_t> x(inputs[0], call.inputs[0]);
  const Parameter<float> multiplier(call, inputs, kScale);
  const Parameter<std::int64_t> zero_point(call, inputs, kZeroPoint);
  const Parameter<std::int32_t> bias(call, inputs, kBias);
  fill<std::int64_t>(call, outputs, [&](std::int64_t i, const Dims& index) {
    const std::int32_t sum = wrapping_add(x[i], bias.at(index));
    return quantized(static_cast<float>(sum) * multiplier.at(index), zero_point.at(index),
                     call.outputs[0].dtype);
  });
}

std::vector<OperandType> infer_range_to_scale(const OpCall& call) {
  require_float(call, 0);
  require_same_type(call, 0, 1);
  require_shape(call, 1, call.inputs[0].shape, "that of the lowest values");
  require_quantized(dtype_of(call), "attribute \"dtype\"");
  return {rows(call.inputs[0].dtype, call.inputs[0].shape),
          rows(dtype_of(call), call.inputs[0].shape)};
}

Factors range_factors(const OpCall& call) {
  FactorBuilder builder(call);
  for (int d = 0; d < call.inputs[0].shape.rank(); ++d) {
    const int factor = builder.add();
    for (std::size_t i = 0; i < 2; ++i) {
      builder.input(i, d, factor);
      builder.output(i, d, factor);
    }
  }
  return builder.build();
}

void run_range_to_scale(const OpCall& call, Inputs inputs, Outputs outputs) {
  const auto [first, last] = integer_range(call.outputs[1].dtype);
  const Loaded<float> lows(inputs[0], call.inputs[0]);
  const Loaded<float> highs(inputs[1], call.inputs[1]);
  const std::int64_t count = call.inputs[0].shape.element_count();
  auto scales = zeros<float>(count);
  auto zero_points = zeros<std::int64_t>(count);
  for (std::int64_t i = 0; i < count; ++i) {
    const float low = std::min(lows[i], 0.0F);
    const float high = std::max(highs[i], 0.0F);
    const auto steps = static_cast<float>(static_cast<std::int64_t>(last) - first);
    const float scale = low == high ? 1.0F : (high - low) / steps;
    const float zero_point = static_cast<float>(first) - low / scale;
    scales[static_cast<std::size_t>(i)] = scale;
    zero_points[static_cast<std::size_t>(i)] = quantized(zero_point, 0, call.outputs[1].dtype);
  }
  store(scales, call.outputs[0], outputs[0]);
  store(zero_points, call.outputs[1], outputs[1]);
}

constexpr OpDef kOps[] = {
    // (x, scale, zero point): saturate(round(x / scale) + zero point), divided in f32.
    {.name = "quantize",
     .min_inputs = 2,
     .max_inputs = 3,
     .canonical = quantize_form,
     .infer = infer_quantize,
     .factors = blocked_factors,
     .reference = run_quantize},
    // (x, scale, zero point): (x - zero point) * scale, multiplied in f32.
    {.name = "dequantize",
     .min_inputs = 2,
     .max_inputs = 3,
     .canonical = dequantize_form,
     .infer = infer_dequantize,
     .factors = blocked_factors,
     .reference = run_dequantize},
    // (sum, multiplier, zero point, bias): saturate(round((sum + bias) * multiplier) + zero point),
    // multiplied in f32: what follows a product of integers.
    {.name = "requantize",
     .min_inputs = 2,
     .max_inputs = 4,
     .canonical = integer_form,
     .infer = infer_requantize,
     .factors = broadcast_factors,
     .reference = run_requantize},
    // (lowest, highest): the scale and the zero point with which integers cover a range and zero.
    {.name = "range_to_scale",
     .min_inputs = 2,
     .max_inputs = 2,
     .min_outputs = 2,
     .max_outputs = 2,
     .required_outputs = 2,
     .canonical = integer_form,
     .infer = infer_range_to_scale,
     .factors = range_factors,
     .reference = run_range_to_scale},
};

}  // namespace

void require_quantized(DType dtype, std::string_view what) {
  if (is_quantized(dtype)) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} wants u8, i8, u16 or i16, got {}", what, to_string(dtype)));
}

std::int64_t quantized(float value, std::int64_t zero_point, DType dtype) {
  const auto [low, high] = integer_range(dtype);
  const double moved = std::nearbyint(static_cast<double>(value)) + static_cast<double>(zero_point);
  if (!(moved > static_cast<double>(low))) return low;
  return moved < static_cast<double>(high) ? static_cast<std::int64_t>(moved)
                                           : static_cast<std::int64_t>(high);
}

std::span<const OpDef> quantize_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
