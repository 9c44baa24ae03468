#include <algorithm>
#include <array>
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

// --- tile --------------------------------------------------------------------------------------

void tile_form(AttributeForm& form) {
  form.integers("repeats", static_cast<std::size_t>(form.rank()), {.fallback = 1, .min = 0});
}

const std::vector<std::int64_t>& repeats_of(const OpCall& call) {
  return call.attributes.integers("repeats");
}

std::vector<OperandType> infer_tile(const OpCall& call) {
  const std::vector<std::int64_t> repeats = repeats_of(call);
  Dims sizes = call.inputs[0].shape.sizes();
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    sizes[d] = checked_mul(sizes[d], repeats[d]);
  }
  return {rows(call.inputs[0].dtype, Shape(sizes))};
}

Factors tile_factors(const OpCall& call) {
  const std::vector<std::int64_t> repeats = repeats_of(call);
  FactorBuilder builder(call);
  for (int d = 0; d < call.inputs[0].shape.rank(); ++d) {
    if (repeats[static_cast<std::size_t>(d)] == 1) builder.share(d, d);
  }
  return builder.build();
}

void run_tile(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Shape& in = call.inputs[0].shape;
  const Dims strides = row_major_strides(in);
  pick(inputs[0], nullptr, call.outputs[0], outputs[0], [&](const Dims& index) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < index.size(); ++d) {
      offset += index[d] % in[static_cast<int>(d)] * strides[d];
    }
    return offset;
  });
}

// --- pad ---------------------------------------------------------------------------------------

void pad_form(AttributeForm& form) {
  form.choice("mode", {"constant", "reflect", "edge", "wrap"});
  form.integers("pads", 2 * static_cast<std::size_t>(form.rank()), {.fallback = 0});
}

const std::vector<std::int64_t>& pads_of(const OpCall& call) {
  return call.attributes.integers("pads");
}

std::vector<OperandType> infer_pad(const OpCall& call) {
  const Shape& in = call.inputs[0].shape;
  const std::vector<std::int64_t> pads = pads_of(call);
  const std::string& mode = call.attributes.text("mode");
  if (has_input(call, 1)) {
    require_same_type(call, 0, 1);
    if (call.inputs[1].shape.element_count() != 1) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the value to pad with wants one element, got {}",
                              call.inputs[1].shape.to_string()));
    }
  }
  Dims sizes;
  for (int d = 0; d < in.rank(); ++d) {
    const std::int64_t begin = pads[static_cast<std::size_t>(d)];
    const std::int64_t end = pads[static_cast<std::size_t>(in.rank() + d)];
    const std::int64_t size = checked_add(checked_add(in[d], begin), end);
    if (size < 0 || begin < -in[d] || end < -in[d] ||
        (in[d] == 0 && size > 0 && mode != "constant")) {
      throw Error(ErrorCode::invalid_argument, fmt::format("pads {} and {} don't fit dim {} of {}",
                                                           begin, end, d, in.to_string()));
    }
    sizes.push_back(size);
  }
  return {rows(call.inputs[0].dtype, Shape(sizes))};
}

Factors pad_factors(const OpCall& call) {
  const std::vector<std::int64_t> pads = pads_of(call);
  const int rank = call.inputs[0].shape.rank();
  FactorBuilder builder(call);
  for (int d = 0; d < rank; ++d) {
    if (pads[static_cast<std::size_t>(d)] == 0 && pads[static_cast<std::size_t>(rank + d)] == 0) {
      builder.share(d, d);
    }
  }
  return builder.build();
}

void run_pad(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Shape& in = call.inputs[0].shape;
  const std::vector<std::int64_t> pads = pads_of(call);
  const std::string& mode = call.attributes.text("mode");
  const Dims strides = row_major_strides(in);
  const std::byte* value = has_input(call, 1) ? inputs[1] : nullptr;
  pick(inputs[0], value, call.outputs[0], outputs[0], [&](const Dims& index) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < index.size(); ++d) {
      const std::int64_t from = padded_from(mode, index[d] - pads[d], in[static_cast<int>(d)]);
      if (from < 0) return from;
      offset += from * strides[d];
    }
    return offset;
  });
}

// --- depth_to_space, space_to_depth ------------------------------------------------------------

void block_form(AttributeForm& form) {
  form.integer("blocksize", {.min = 1, .max = 1 << 20});
}
void depth_to_space_form(AttributeForm& form) {
  block_form(form);
  form.choice("mode", {"DCR", "CRD"});
}

std::int64_t block_of(const OpCall& call) {
  return call.attributes.integer("blocksize");
}

std::vector<OperandType> infer_depth_to_space(const OpCall& call) {
  require_rank(call, 0, 4);
  const Shape& in = call.inputs[0].shape;
  const std::int64_t block = block_of(call);
  if (in[1] % (block * block) != 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} channels of {} don't divide into blocks of {}x{}", in[1],
                            in.to_string(), block, block));
  }
  return {rows(call.inputs[0].dtype, Shape{in[0], in[1] / (block * block),
                                           checked_mul(in[2], block), checked_mul(in[3], block)})};
}

std::vector<OperandType> infer_space_to_depth(const OpCall& call) {
  require_rank(call, 0, 4);
  const Shape& in = call.inputs[0].shape;
  const std::int64_t block = block_of(call);
  if (in[2] % block != 0 || in[3] % block != 0) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{} doesn't divide into blocks of {}x{}",
                                                         in.to_string(), block, block));
  }
  return {rows(call.inputs[0].dtype,
               Shape{in[0], checked_mul(in[1], block * block), in[2] / block, in[3] / block})};
}

Factors batch_factors(const OpCall& call) {
  FactorBuilder builder(call);
  builder.share(0, 0);
  return builder.build();
}

/// Reads input 0 as `view`, transposes it by `order`, and writes it out.
void transpose_view(const OpCall& call, Inputs inputs, Outputs outputs, const Shape& view,
                    const std::array<std::size_t, 6>& order) {
  const Dims strides = row_major_strides(view);
  Dims sizes;
  Dims steps;
  for (const std::size_t dim : order) {
    sizes.push_back(view[static_cast<int>(dim)]);
    steps.push_back(strides[dim]);
  }
  const DType dtype = call.inputs[0].dtype;
  copy_elements(inputs[0], dtype, steps, outputs[0], dtype, Shape(sizes));
}

void run_depth_to_space(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Shape& in = call.inputs[0].shape;
  const std::int64_t block = block_of(call);
  const std::int64_t channels = in[1] / (block * block);
  if (call.attributes.text("mode") == "DCR") {
    transpose_view(call, inputs, outputs, {in[0], block, block, channels, in[2], in[3]},
                   {0, 3, 4, 1, 5, 2});
  } else {
    transpose_view(call, inputs, outputs, {in[0], channels, block, block, in[2], in[3]},
                   {0, 1, 4, 2, 5, 3});
  }
}

void run_space_to_depth(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Shape& in = call.inputs[0].shape;
  const std::int64_t block = block_of(call);
  transpose_view(call, inputs, outputs, {in[0], in[1], in[2] / block, block, in[3] / block, block},
                 {0, 3, 5, 1, 2, 4});
}

// --- trilu -------------------------------------------------------------------------------------

void trilu_form(AttributeForm& form) {
  form.flag("upper", true);
  form.integer("k", {.fallback = 0});
}

std::vector<OperandType> infer_trilu(const OpCall& call) {
  require_rank(call, 0, 2, true);
  return {rows(call.inputs[0].dtype, call.inputs[0].shape)};
}

Factors trilu_factors(const OpCall& call) {
  FactorBuilder builder(call);
  for (int d = 0; d < call.inputs[0].shape.rank() - 2; ++d) {
    builder.share(d, d);
  }
  return builder.build();
}

void run_trilu(const OpCall& call, Inputs inputs, Outputs outputs) {
  const bool upper = call.attributes.integer("upper") != 0;
  const std::int64_t k = call.attributes.integer("k");
  const Dims strides = row_major_strides(call.inputs[0].shape);
  pick(inputs[0], nullptr, call.outputs[0], outputs[0], [&](const Dims& index) {
    const std::int64_t above = index[index.size() - 1] - index[index.size() - 2];
    const bool kept = upper ? above >= k : above <= k;
    return kept ? dot(index, strides) : -1;
  });
}

// --- reverse_sequence --------------------------------------------------------------------------

struct SequenceAxes {
  int batch = 1;
  int time = 0;
};
void reverse_sequence_form(AttributeForm& form) {
  form.axis("batch_axis", form.rank(), 1);
  form.axis("time_axis", form.rank(), 0);
}

SequenceAxes sequence_axes(const OpCall& call) {
  return {.batch = static_cast<int>(call.attributes.integer("batch_axis")),
          .time = static_cast<int>(call.attributes.integer("time_axis"))};
}

std::vector<OperandType> infer_reverse_sequence(const OpCall& call) {
  const SequenceAxes axes = sequence_axes(call);
  if (axes.batch == axes.time) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("batch_axis and time_axis are both {}", axes.batch));
  }
  require_type(call, 1, Types::index);
  require_shape(call, 1, Shape{call.inputs[0].shape[axes.batch]}, "one length per batch entry");
  return {rows(call.inputs[0].dtype, call.inputs[0].shape)};
}

Factors reverse_sequence_factors(const OpCall& call) {
  const SequenceAxes axes = sequence_axes(call);
  FactorBuilder builder(call);
  for (int d = 0; d < call.inputs[0].shape.rank(); ++d) {
    if (d == axes.time) continue;
    const int factor = builder.add();
    builder.input(0, d, factor);
    builder.output(0, d, factor);
    if (d == axes.batch) builder.input(1, 0, factor);
  }
  return builder.build();
}

void run_reverse_sequence(const OpCall& call, Inputs inputs, Outputs outputs) {
  const SequenceAxes axes = sequence_axes(call);
  const Shape& in = call.inputs[0].shape;
  const Loaded<std::int64_t> lengths(inputs[1], call.inputs[1]);
  for (std::int64_t i = 0; i < in[axes.batch]; ++i) {
    if (lengths[i] < 0 || lengths[i] > in[axes.time]) {
      throw Error(ErrorCode::kernel_failed,
                  fmt::format("sequence length {} is outside [0,{}]", lengths[i], in[axes.time]));
    }
  }
  const Dims strides = row_major_strides(in);
  pick(inputs[0], nullptr, call.outputs[0], outputs[0], [&](const Dims& index) {
    Dims from = index;
    std::int64_t& time = from[static_cast<std::size_t>(axes.time)];
    const std::int64_t length = lengths[index[static_cast<std::size_t>(axes.batch)]];
    if (time < length) time = length - 1 - time;
    return dot(from, strides);
  });
}

// --- one_hot -----------------------------------------------------------------------------------

void one_hot_form(AttributeForm& form) {
  form.axis("axis", form.rank() + 1, -1);
  form.integer("depth", {.min = 0});
}

int one_hot_axis(const OpCall& call) {
  return static_cast<int>(call.attributes.integer("axis"));
}

std::vector<OperandType> infer_one_hot(const OpCall& call) {
  require_type(call, 0, Types::number);
  require_shape(call, 1, Shape{2}, "the values off and on");
  Dims sizes = call.inputs[0].shape.sizes();
  sizes.insert(static_cast<std::size_t>(one_hot_axis(call)), call.attributes.integer("depth"));
  return {rows(call.inputs[1].dtype, Shape(sizes))};
}

Factors one_hot_factors(const OpCall& call) {
  const int axis = one_hot_axis(call);
  FactorBuilder builder(call);
  for (int d = 0; d < call.inputs[0].shape.rank(); ++d) {
    builder.share(d, d < axis ? d : d + 1);
  }
  return builder.build();
}

void run_one_hot(const OpCall& call, Inputs inputs, Outputs outputs) {
  const auto axis = static_cast<std::size_t>(one_hot_axis(call));
  const Loaded<std::int64_t> indices(inputs[0], call.inputs[0]);
  const Dims strides = row_major_strides(call.inputs[0].shape);
  const std::int64_t depth = call.outputs[0].shape[static_cast<int>(axis)];
  pick(inputs[1], nullptr, call.outputs[0], outputs[0], [&](const Dims& index) {
    Dims place = index;
    place.erase(axis);
    const std::int64_t hot = indices[dot(place, strides)];
    return std::int64_t{(hot < 0 ? hot + depth : hot) == index[axis] ? 1 : 0};
  });
}

constexpr OpDef kOps[] = {
    {.name = "tile",
     .canonical = tile_form,
     .infer = infer_tile,
     .factors = tile_factors,
     .reference = run_tile},
    {.name = "pad",
     .max_inputs = 2,
     .canonical = pad_form,
     .infer = infer_pad,
     .factors = pad_factors,
     .reference = run_pad},
    {.name = "depth_to_space",
     .canonical = depth_to_space_form,
     .infer = infer_depth_to_space,
     .factors = batch_factors,
     .reference = run_depth_to_space},
    {.name = "space_to_depth",
     .canonical = block_form,
     .infer = infer_space_to_depth,
     .factors = batch_factors,
     .reference = run_space_to_depth},
    {.name = "trilu",
     .canonical = trilu_form,
     .infer = infer_trilu,
     .factors = trilu_factors,
     .reference = run_trilu},
    {.name = "reverse_sequence",
     .min_inputs = 2,
     .max_inputs = 2,
     .canonical = reverse_sequence_form,
     .infer = infer_reverse_sequence,
     .factors = reverse_sequence_factors,
     .reference = run_reverse_sequence},
    {.name = "one_hot",
     .min_inputs = 2,
     .max_inputs = 2,
     .canonical = one_hot_form,
     .infer = infer_one_hot,
     .factors = one_hot_factors,
     .reference = run_one_hot},
};

}  // namespace

std::span<const OpDef> rearrange_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
