#include <algorithm>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/math.hpp"
#include "tilemesh/ops/derived.hpp"

#include "attribute_form.hpp"
#include "elements.hpp"
#include "tables.hpp"

namespace tilemesh::ops {
namespace {

void shape_form(AttributeForm& form) {
  form.integer_list("shape", {.min = 0});
}
Shape shape_attribute(const OpCall& call) {
  return Shape(std::span<const std::int64_t>(call.attributes.integers("shape")));
}

/// The op as a strided copy between parts of its operands, which have the same dtype.
void move(const std::byte* source, const Dims& source_strides, std::byte* target,
          const Dims& target_strides, DType dtype, const Shape& shape) {
  copy_strided({source, dtype, shape, source_strides}, {target, dtype, shape, target_strides});
}

// --- reshape -----------------------------------------------------------------------------------

std::vector<OperandType> infer_reshape(const OpCall& call) {
  const Shape& in = call.inputs[0].shape;
  const Shape out = shape_attribute(call);
  if (in.element_count() != out.element_count()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} has {} elements, the wanted shape {} has {}", in.to_string(),
                            in.element_count(), out.to_string(), out.element_count()));
  }
  return {rows(call.inputs[0].dtype, out)};
}

/// Walks both shapes from the front, passing over ones and pairing groups of dims of equal
/// products; of each group the first dims share a factor, since equal parts of both are the same
/// elements.
Factors reshape_factors(const OpCall& call) {
  const Shape& in = call.inputs[0].shape;
  const Shape& out = call.outputs[0].shape;
  FactorBuilder builder(call);
  if (in.element_count() == 0) return builder.build();
  int i = 0;
  int o = 0;
  while (i < in.rank() && o < out.rank()) {
    if (in[i] == out[o]) {
      builder.share(i++, o++);
      continue;
    }
    if (in[i] == 1 || out[o] == 1) {
      (in[i] == 1 ? i : o)++;
      continue;
    }
    builder.share(i, o);
    std::int64_t left = in[i++];
    std::int64_t right = out[o++];
    while (left != right) {
      (left < right ? left : right) *= left < right ? in[i++] : out[o++];
    }
  }
  return builder.build();
}

void run_reshape(const OpCall& call, Inputs inputs, Outputs outputs) {
  const std::int64_t bytes = call.inputs[0].shape.element_count() * size_of(call.inputs[0].dtype);
  if (bytes > 0 && inputs[0] != outputs[0]) {
    std::memmove(outputs[0], inputs[0], static_cast<std::size_t>(bytes));
  }
}

// --- transpose ---------------------------------------------------------------------------------

void transpose_form(AttributeForm& form) {
  form.axes("order", form.rank(), static_cast<std::size_t>(form.rank()), true);
}

std::vector<OperandType> infer_transpose(const OpCall& call) {
  Dims sizes;
  for (const std::int64_t dim : call.attributes.integers("order")) {
    sizes.push_back(call.inputs[0].shape[static_cast<int>(dim)]);
  }
  return {rows(call.inputs[0].dtype, Shape(sizes))};
}

Factors transpose_factors(const OpCall& call) {
  FactorBuilder builder(call);
  int out = 0;
  for (const std::int64_t dim : call.attributes.integers("order")) {
    builder.share(static_cast<int>(dim), out++);
  }
  return builder.build();
}

void run_transpose(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Dims own = row_major_strides(call.inputs[0].shape);
  Dims strides;
  for (const std::int64_t dim : call.attributes.integers("order")) {
    strides.push_back(own[static_cast<std::size_t>(dim)]);
  }
  const Shape& shape = call.outputs[0].shape;
  move(inputs[0], strides, outputs[0], row_major_strides(shape), call.inputs[0].dtype, shape);
}

// --- concat, split -----------------------------------------------------------------------------

void concat_form(AttributeForm& form) {
  form.axis("axis", form.rank());
}

int axis_of(const OpCall& call) {
  return static_cast<int>(call.attributes.integer("axis"));
}

std::vector<OperandType> infer_concat(const OpCall& call) {
  const Shape& first = call.inputs[0].shape;
  const int axis = axis_of(call);
  std::int64_t size = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!has_input(call, i)) {
      throw Error(ErrorCode::invalid_argument, fmt::format("input {} must be given", i));
    }
    require_same_type(call, 0, i);
    require_rank(call, i, first.rank());
    const std::int64_t own = call.inputs[i].shape[axis];
    require_shape(call, i, first.with(axis, own), "as input 0 off the axis");
    size = checked_add(size, own);
  }
  return {rows(call.inputs[0].dtype, first.with(axis, size))};
}

Factors concat_factors(const OpCall& call) {
  const Shape& shape = call.inputs[0].shape;
  const int axis = axis_of(call);
  FactorBuilder builder(call);
  for (int d = 0; d < shape.rank(); ++d) {
    if (d == axis) continue;
    const int factor = builder.add();
    builder.output(0, d, factor);
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      builder.input(i, d, factor);
    }
  }
  return builder.build();
}

void run_concat(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Shape& out = call.outputs[0].shape;
  const int axis = axis_of(call);
  const Dims strides = row_major_strides(out);
  const std::int64_t step = around(out, axis).inner * size_of(call.outputs[0].dtype);
  std::byte* target = outputs[0];
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Shape& in = call.inputs[i].shape;
    move(inputs[i], row_major_strides(in), target, strides, call.outputs[0].dtype, in);
    target += in[axis] * step;
  }
}

void split_form(AttributeForm& form) {
  form.axis("axis", form.rank(), 0);
  form.integer_list("sizes", {.min = 0});
}

std::vector<OperandType> infer_split(const OpCall& call) {
  const Shape& in = call.inputs[0].shape;
  const int axis = axis_of(call);
  const std::vector<std::int64_t>& sizes = call.attributes.integers("sizes");
  std::vector<OperandType> outputs;
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) {
    outputs.push_back(rows(call.inputs[0].dtype, in.with(axis, size)));
    sum = checked_add(sum, size);
  }
  if (sum != in[axis] || sizes.empty()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the sizes {} add up to {}, dim {} of {} has {}", fmt::join(sizes, ","),
                            sum, axis, in.to_string(), in[axis]));
  }
  return outputs;
}

Factors split_factors(const OpCall& call) {
  return all_but_axis(call, axis_of(call));
}

void run_split(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Shape& in = call.inputs[0].shape;
  const int axis = axis_of(call);
  const std::int64_t step = around(in, axis).inner * size_of(call.inputs[0].dtype);
  const std::byte* source = inputs[0];
  for (std::size_t o = 0; o < call.outputs.size(); ++o) {
    const Shape& out = call.outputs[o].shape;
    if (has_output(call, outputs, o)) {
      move(source, row_major_strides(in), outputs[o], row_major_strides(out), call.inputs[0].dtype,
           out);
    }
    source += out[axis] * step;
  }
}

// --- slice -------------------------------------------------------------------------------------

void slice_form(AttributeForm& form) {
  const std::size_t count = form.integer_list("starts").size();
  form.integers("ends", count);
  form.axes("axes", form.rank(), count);
  form.integers("steps", count, {.fallback = 1});
}

std::vector<OperandType> infer_slice(const OpCall& call) {
  const Shape& in = call.inputs[0].shape;
  const std::vector<Cut> cuts = cuts_of(call);
  Dims sizes;
  for (int d = 0; d < in.rank(); ++d) {
    const Cut& cut = cuts[static_cast<std::size_t>(d)];
    const bool in_range = cut.step != 0 && cut.step != std::numeric_limits<std::int64_t>::min() &&
                          cut.start >= -1 && cut.start <= in[d] && cut.end >= -1 &&
                          cut.end <= in[d];
    const bool inside = in_range && (cut.size() == 0 || (cut.start >= 0 && cut.start < in[d]));
    if (!inside) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the slice {}:{}:{} leaves dim {} of {}", cut.start, cut.end,
                              cut.step, d, in.to_string()));
    }
    sizes.push_back(cut.size());
  }
  return {rows(call.inputs[0].dtype, Shape(sizes))};
}

Factors slice_factors(const OpCall& call) {
  const std::vector<Cut> cuts = cuts_of(call);
  FactorBuilder builder(call);
  for (int d = 0; d < call.inputs[0].shape.rank(); ++d) {
    const Cut& cut = cuts[static_cast<std::size_t>(d)];
    if (cut.start == 0 && cut.step == 1 && cut.end == call.inputs[0].shape[d]) builder.share(d, d);
  }
  return builder.build();
}

void run_slice(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Shape& out = call.outputs[0].shape;  // not from the ends: a shard keeps less of a whole dim
  if (out.element_count() == 0) return;
  const std::vector<Cut> cuts = cuts_of(call);
  Dims strides = row_major_strides(call.inputs[0].shape);
  const std::byte* first = inputs[0];
  for (std::size_t d = 0; d < strides.size(); ++d) {
    first += cuts[d].start * strides[d] * size_of(call.inputs[0].dtype);
    strides[d] = out[static_cast<int>(d)] == 1 ? 0 : strides[d] * cuts[d].step;
  }
  move(first, strides, outputs[0], row_major_strides(out), call.inputs[0].dtype, out);
}

// --- expand ------------------------------------------------------------------------------------

std::vector<OperandType> infer_expand(const OpCall& call) {
  return {rows(call.inputs[0].dtype, broadcast(call.inputs[0].shape, shape_attribute(call)))};
}

void run_expand(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Shape& out = call.outputs[0].shape;
  copy_elements(inputs[0], call.inputs[0].dtype, broadcast_strides(call.inputs[0].shape, out),
                outputs[0], call.outputs[0].dtype, out);
}

// --- reshard -----------------------------------------------------------------------------------

/// `fill`: what becomes of elements beyond a shard's extent, a ReduceOp.
void reshard_form(AttributeForm& form) {
  form.integer("fill", {.fallback = 0, .min = 0, .max = static_cast<int>(ReduceOp::prod)});
}

// Another placement of the same tensor: globally nothing changes.
std::vector<OperandType> infer_reshard(const OpCall& call) {
  return {rows(call.inputs[0].dtype, call.inputs[0].shape)};
}

void run_reshard(const OpCall& call, Inputs inputs, Outputs outputs) {
  const auto bytes = call.inputs[0].shape.element_count() * size_of(call.inputs[0].dtype);
  if (bytes > 0) std::memcpy(outputs[0], inputs[0], static_cast<std::size_t>(bytes));
}

constexpr OpDef kOps[] = {
    {.name = "reshard",
     .canonical = reshard_form,
     .infer = infer_reshard,
     .factors = no_factors,
     .reference = run_reshard},
    {.name = "reshape",
     .canonical = shape_form,
     .infer = infer_reshape,
     .factors = reshape_factors,
     .reference = run_reshape,
     .is_view = true,
     .partial = PartialRule::moves},
    {.name = "transpose",
     .canonical = transpose_form,
     .infer = infer_transpose,
     .factors = transpose_factors,
     .reference = run_transpose,
     .partial = PartialRule::moves},
    {.name = "concat",
     .max_inputs = -1,
     .canonical = concat_form,
     .infer = infer_concat,
     .factors = concat_factors,
     .reference = run_concat,
     .partial = PartialRule::moves},
    {.name = "split",
     .max_outputs = -1,
     .required_outputs = 0,
     .canonical = split_form,
     .infer = infer_split,
     .factors = split_factors,
     .reference = run_split,
     .partial = PartialRule::moves},
    {.name = "slice",
     .canonical = slice_form,
     .infer = infer_slice,
     .factors = slice_factors,
     .reference = run_slice,
     .partial = PartialRule::moves},
    {.name = "expand",
     .canonical = shape_form,
     .infer = infer_expand,
     .factors = broadcast_factors,
     .reference = run_expand,
     .partial = PartialRule::moves},
};

}  // namespace

std::span<const OpDef> movement_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
