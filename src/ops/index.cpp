#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "attribute_form.hpp"
#include "elements.hpp"
#include "tables.hpp"

namespace tilemesh::ops {
namespace {

void gather_form(AttributeForm& form) {
  form.axis("axis", form.rank(), 0);
}

int gather_axis(const OpCall& call) {
  return static_cast<int>(call.attributes.integer("axis"));
}

std::vector<OperandType> infer_gather(const OpCall& call) {
  require_type(call, 1, Types::index);
  const Shape& data = call.inputs[0].shape;
  const int axis = gather_axis(call);
  Dims sizes;
  for (int d = 0; d < axis; ++d) {
    sizes.push_back(data[d]);
  }
  for (const std::int64_t size : call.inputs[1].shape) {
    sizes.push_back(size);
  }
  for (int d = axis + 1; d < data.rank(); ++d) {
    sizes.push_back(data[d]);
  }
  return {rows(call.inputs[0].dtype, Shape(sizes))};
}

Factors gather_factors(const OpCall& call) {
  const int axis = gather_axis(call);
  const int index_rank = call.inputs[1].shape.rank();
  FactorBuilder builder(call);
  for (int d = 0; d < call.inputs[0].shape.rank(); ++d) {
    if (d != axis) builder.share(d, d < axis ? d : d - 1 + index_rank);
  }
  for (int d = 0; d < index_rank; ++d) {
    const int factor = builder.add();
    builder.input(1, d, factor);
    builder.output(0, axis + d, factor);
  }
  return builder.build();
}

void run_gather(const OpCall& call, Inputs inputs, Outputs outputs) {
  const AxisView view = around(call.inputs[0].shape, gather_axis(call));
  const std::vector<std::int64_t> indices = load_indices(inputs[1], call.inputs[1], view.size);
  const std::int64_t bytes = view.inner * size_of(call.inputs[0].dtype);
  std::byte* target = outputs[0];
  for (std::int64_t o = 0; o < view.outer; ++o) {
    for (const std::int64_t index : indices) {
      const std::byte* source = inputs[0] + (o * view.size + index) * bytes;
      target = std::copy(source, source + bytes, target);
    }
  }
}

// --- gather_elements ---------------------------------------------------------------------------

std::vector<OperandType> infer_gather_elements(const OpCall& call) {
  require_type(call, 1, Types::index);
  const Shape& data = call.inputs[0].shape;
  const Shape& indices = call.inputs[1].shape;
  const int axis = gather_axis(call);
  require_rank(call, 1, data.rank());
  for (int d = 0; d < data.rank(); ++d) {
    if (d != axis && indices[d] > data[d]) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("indices {} reach beyond data {} in dim {}", indices.to_string(),
                              data.to_string(), d));
    }
  }
  return {rows(call.inputs[0].dtype, indices)};
}

Factors gather_elements_factors(const OpCall& call) {
  const Shape& data = call.inputs[0].shape;
  const int axis = gather_axis(call);
  FactorBuilder builder(call);
  for (int d = 0; d < data.rank(); ++d) {
    // An index stands for its own place in the other dims, so both must be cut alike.
    if (d != axis && data[d] != call.inputs[1].shape[d]) continue;
    const int factor = builder.add();
    if (d != axis) builder.input(0, d, factor);
    builder.input(1, d, factor);
    builder.output(0, d, factor);
  }
  return builder.build();
}

void run_gather_elements(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Shape& data = call.inputs[0].shape;
  const auto axis = static_cast<std::size_t>(gather_axis(call));
  const std::vector<std::int64_t> indices =
      load_indices(inputs[1], call.inputs[1], data[static_cast<int>(axis)]);
  const Dims strides = row_major_strides(data);
  auto next = indices.begin();
  pick(inputs[0], nullptr, call.outputs[0], outputs[0], [&](const Dims& index) {
    return dot(index, strides) + (*next++ - index[axis]) * strides[axis];
  });
}

// --- gather_nd ---------------------------------------------------------------------------------

/// How gather_nd and scatter_nd read their indices: the last dim holds `depth` numbers, which
/// select in the data's dims from `batch` on.
struct Tuples {
  int batch = 0;
  int depth = 0;
};

void gather_nd_form(AttributeForm& form) {
  form.integer("batch_dims", {.fallback = 0, .min = 0});
}

Tuples tuples_of(const OpCall& call, std::int64_t batch) {
  require_type(call, 1, Types::index);
  require_rank(call, 0, 1, true);
  require_rank(call, 1, 1, true);
  const Shape& data = call.inputs[0].shape;
  const Shape& indices = call.inputs[1].shape;
  if (batch >= std::min(data.rank(), indices.rank())) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("batch_dims of {} must be below the ranks of data {} and indices {}",
                            batch, data.to_string(), indices.to_string()));
  }
  const std::int64_t depth = indices[indices.rank() - 1];
  if (depth > data.rank() - batch) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("indices {} of {} numbers don't fit the {} dims of data {}",
                            indices.to_string(), depth, data.rank() - batch, data.to_string()));
  }
  return {static_cast<int>(batch), static_cast<int>(depth)};
}

Tuples gather_tuples(const OpCall& call) {
  return tuples_of(call, call.attributes.integer("batch_dims"));
}

/// The shape of what tuples of indices pick.
Shape picked_shape(const OpCall& call, const Tuples& tuples) {
  const Shape& data = call.inputs[0].shape;
  const Shape& indices = call.inputs[1].shape;
  for (int d = 0; d < tuples.batch; ++d) {
    if (data[d] != indices[d]) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("data {} and indices {} differ in batch dim {}", data.to_string(),
                              indices.to_string(), d));
    }
  }
  Dims sizes(indices.begin(), indices.end() - 1);
  for (int d = tuples.batch + tuples.depth; d < data.rank(); ++d) {
    sizes.push_back(data[d]);
  }
  return Shape(sizes);
}

std::vector<OperandType> infer_gather_nd(const OpCall& call) {
  return {rows(call.inputs[0].dtype, picked_shape(call, gather_tuples(call)))};
}

Factors gather_nd_factors(const OpCall& call) {
  const Tuples tuples = gather_tuples(call);
  const int outer = call.inputs[1].shape.rank() - 1;
  const int taken = tuples.batch + tuples.depth;
  FactorBuilder builder(call);
  for (int d = 0; d < outer; ++d) {
    const int factor = builder.add();
    if (d < tuples.batch) builder.input(0, d, factor);
    builder.input(1, d, factor);
    builder.output(0, d, factor);
  }
  for (int d = taken; d < call.inputs[0].shape.rank(); ++d) {
    builder.share(d, outer + d - taken);
  }
  return builder.build();
}

/// The offset in elements that a tuple of indices leads to, from the start of its batch.
std::int64_t tuple_offset(const Loaded<std::int64_t>& indices, std::int64_t tuple,
                          const Tuples& tuples, const Shape& data, const Dims& strides) {
  std::int64_t offset = 0;
  for (int k = 0; k < tuples.depth; ++k) {
    const int dim = tuples.batch + k;
    offset += wrapped_index(indices[tuple * tuples.depth + k], data[dim]) *
              strides[static_cast<std::size_t>(dim)];
  }
  return offset;
}

void run_gather_nd(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Tuples tuples = gather_tuples(call);
  const Shape& data = call.inputs[0].shape;
  const Shape& shape = call.inputs[1].shape;
  const Dims strides = row_major_strides(data);
  const Loaded<std::int64_t> indices(inputs[1], call.inputs[1]);
  const std::int64_t batches =
      Shape(std::span(data.begin(), data.begin() + tuples.batch)).element_count();
  const std::int64_t count = Shape(std::span(shape.begin(), shape.end() - 1)).element_count();
  const std::int64_t batch_size = batches == 0 ? 0 : data.element_count() / batches;
  const std::int64_t run =
      Shape(std::span(data.begin() + tuples.batch + tuples.depth, data.end())).element_count();
  const std::int64_t bytes = size_of(call.inputs[0].dtype);
  std::byte* target = outputs[0];
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t batch = i / (count / batches);
    const std::byte* from =
        inputs[0] + (batch * batch_size + tuple_offset(indices, i, tuples, data, strides)) * bytes;
    target = std::copy(from, from + run * bytes, target);
  }
}

// --- scatter -----------------------------------------------------------------------------------

enum class Reduction { none, add, mul, min, max };

void scatter_nd_form(AttributeForm& form) {
  form.choice("reduction", {"none", "add", "mul", "min", "max"});
}
void scatter_elements_form(AttributeForm& form) {
  gather_form(form);
  scatter_nd_form(form);
}

Reduction reduction_of(const OpCall& call) {
  const std::string& name = call.attributes.text("reduction");
  return name == "add"   ? Reduction::add
         : name == "mul" ? Reduction::mul
         : name == "min" ? Reduction::min
         : name == "max" ? Reduction::max
                         : Reduction::none;
}

template <class T>
T scattered(Reduction reduction, T old, T update) {
  switch (reduction) {
    case Reduction::add: return wrapping_add(old, update);
    case Reduction::mul: return wrapping_mul(old, update);
    case Reduction::min: return update < old || is_nan(update) ? update : old;
    case Reduction::max: return update > old || is_nan(update) ? update : old;
    default: return update;
  }
}

/// A reduction computes; without one, elements of every dtype are only moved.
void require_reducible(const OpCall& call) {
  if (reduction_of(call) != Reduction::none) require_type(call, 0, Types::any);
}

std::vector<OperandType> infer_scatter_elements(const OpCall& call) {
  require_same_type(call, 0, 2);
  require_reducible(call);
  infer_gather_elements(call);
  require_shape(call, 2, call.inputs[1].shape, "that of the indices");
  return {rows(call.inputs[0].dtype, call.inputs[0].shape)};
}

Factors scatter_elements_factors(const OpCall& call) {
  const Shape& data = call.inputs[0].shape;
  FactorBuilder builder(call);
  for (int d = 0; d < data.rank(); ++d) {
    if (d == gather_axis(call) || data[d] != call.inputs[1].shape[d]) continue;
    const int factor = builder.add();
    for (std::size_t i = 0; i < 3; ++i) {
      builder.input(i, d, factor);
    }
    builder.output(0, d, factor);
  }
  return builder.build();
}

void run_scatter_elements(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Shape& data = call.inputs[0].shape;
  const Shape& shape = call.inputs[1].shape;
  const auto axis = static_cast<std::size_t>(gather_axis(call));
  const Reduction reduction = reduction_of(call);
  const std::vector<std::int64_t> indices =
      load_indices(inputs[1], call.inputs[1], data[static_cast<int>(axis)]);
  const Dims strides = row_major_strides(data);
  visit_wide(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Loaded<T> x(inputs[0], call.inputs[0]);
    const Loaded<T> updates(inputs[2], call.inputs[2]);
    std::vector<T> y(x.data(), x.data() + data.element_count());
    Dims index = zero_index(shape);
    for (std::int64_t i = 0; i < shape.element_count(); ++i, next_index(index, shape)) {
      Dims place = index;
      place[axis] = indices[static_cast<std::size_t>(i)];
      T& element = y[static_cast<std::size_t>(dot(place, strides))];
      element = scattered(reduction, element, updates[i]);
    }
    store(y, call.outputs[0], outputs[0]);
  });
}

std::vector<OperandType> infer_scatter_nd(const OpCall& call) {
  require_same_type(call, 0, 2);
  require_reducible(call);
  // Updates have the shape that a gather with the same indices gives.
  require_shape(call, 2, picked_shape(call, tuples_of(call, 0)),
                "the indices' and the data's outer part");
  return {rows(call.inputs[0].dtype, call.inputs[0].shape)};
}

Factors scatter_nd_factors(const OpCall& call) {
  const Tuples tuples = tuples_of(call, 0);
  const int outer = call.inputs[1].shape.rank() - 1;
  FactorBuilder builder(call);
  for (int d = tuples.depth; d < call.inputs[0].shape.rank(); ++d) {
    const int factor = builder.add();
    builder.input(0, d, factor);
    builder.input(2, outer + d - tuples.depth, factor);
    builder.output(0, d, factor);
  }
  return builder.build();
}

void run_scatter_nd(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Tuples tuples = tuples_of(call, 0);
  const Shape& data = call.inputs[0].shape;
  const Shape& shape = call.inputs[1].shape;
  const Dims strides = row_major_strides(data);
  const Reduction reduction = reduction_of(call);
  const Loaded<std::int64_t> indices(inputs[1], call.inputs[1]);
  const std::int64_t count = Shape(std::span(shape.begin(), shape.end() - 1)).element_count();
  const std::int64_t run =
      Shape(std::span(data.begin() + tuples.depth, data.end())).element_count();
  visit_wide(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Loaded<T> x(inputs[0], call.inputs[0]);
    const Loaded<T> updates(inputs[2], call.inputs[2]);
    std::vector<T> y(x.data(), x.data() + data.element_count());
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t offset = tuple_offset(indices, i, tuples, data, strides);
      for (std::int64_t k = 0; k < run; ++k) {
        T& element = y[static_cast<std::size_t>(offset + k)];
        element = scattered(reduction, element, updates[i * run + k]);
      }
    }
    store(y, call.outputs[0], outputs[0]);
  });
}

constexpr OpDef kOps[] = {
    {.name = "gather",
     .min_inputs = 2,
     .max_inputs = 2,
     .canonical = gather_form,
     .infer = infer_gather,
     .factors = gather_factors,
     .reference = run_gather},
    {.name = "gather_elements",
     .min_inputs = 2,
     .max_inputs = 2,
     .canonical = gather_form,
     .infer = infer_gather_elements,
     .factors = gather_elements_factors,
     .reference = run_gather_elements},
    {.name = "gather_nd",
     .min_inputs = 2,
     .max_inputs = 2,
     .canonical = gather_nd_form,
     .infer = infer_gather_nd,
     .factors = gather_nd_factors,
     .reference = run_gather_nd},
    {.name = "scatter_elements",
     .min_inputs = 3,
     .max_inputs = 3,
     .canonical = scatter_elements_form,
     .infer = infer_scatter_elements,
     .factors = scatter_elements_factors,
     .reference = run_scatter_elements},
    {.name = "scatter_nd",
     .min_inputs = 3,
     .max_inputs = 3,
     .canonical = scatter_nd_form,
     .infer = infer_scatter_nd,
     .factors = scatter_nd_factors,
     .reference = run_scatter_nd},
};

}  // namespace

std::span<const OpDef> index_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
