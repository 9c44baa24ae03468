#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "elements.hpp"
#include "tables.hpp"

namespace tilemesh::ops {
namespace {

int gather_axis(const OpCall& call) {
  return axis_attribute_or(call, call.inputs[0].shape.rank(), 0);
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

constexpr OpDef kOps[] = {
    {.name = "gather",
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = infer_gather,
     .factors = gather_factors,
     .reference = run_gather},
};

}  // namespace

std::span<const OpDef> index_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
