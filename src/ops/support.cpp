#include "support.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/math.hpp"

namespace tilemesh::ops {
namespace {

bool belongs(DType dtype, Types types) {
  switch (types) {
    case Types::any: return !is_storage(dtype);
    case Types::number: return is_float(dtype) || is_integer(dtype);
    case Types::real: return is_float(dtype);
    case Types::integer: return is_integer(dtype);
    case Types::index: return dtype == DType::i32 || dtype == DType::i64;
    case Types::boolean: return dtype == DType::boolean;
  }
  return false;
}

std::string_view to_string(Types types) {
  switch (types) {
    case Types::any: return "any dtype";
    case Types::number: return "a number";
    case Types::real: return "a float";
    case Types::integer: return "an integer";
    case Types::index: return "i32 or i64";
    case Types::boolean: return "bool";
  }
  return "?";
}

}  // namespace

bool has_input(const OpCall& call, std::size_t index) {
  return index < call.inputs.size() && call.inputs[index].present;
}

std::size_t own_input_count(const OpCall& call) {
  if (call.def->max_inputs < 0) return call.inputs.size();
  return std::min(call.inputs.size(), static_cast<std::size_t>(call.def->max_inputs));
}

std::size_t wanted_outputs(const OpCall& call) {
  return std::max(call.outputs.size(), static_cast<std::size_t>(call.def->min_outputs));
}

bool has_output(const OpCall& call, Outputs outputs, std::size_t index) {
  return index < call.outputs.size() && call.outputs[index].present && index < outputs.size() &&
         outputs[index] != nullptr;
}

void require_type(const OpCall& call, std::size_t index, Types types) {
  const DType dtype = call.inputs[index].dtype;
  if (belongs(dtype, types)) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("input {} wants {}, got {}", index, to_string(types), to_string(dtype)));
}

void require_same_type(const OpCall& call, std::size_t a, std::size_t b) {
  if (call.inputs[a].dtype == call.inputs[b].dtype) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("inputs {} and {} want the same dtype, got {} and {}: cast one of them",
                          a, b, to_string(call.inputs[a].dtype), to_string(call.inputs[b].dtype)));
}

void require_rank(const OpCall& call, std::size_t index, int rank, bool at_least) {
  const Shape& shape = call.inputs[index].shape;
  if (at_least ? shape.rank() >= rank : shape.rank() == rank) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("input {} wants rank {}{}, got {} of rank {}", index, rank,
                          at_least ? " or more" : "", shape.to_string(), shape.rank()));
}

void require_shape(const OpCall& call, std::size_t index, const Shape& shape,
                   std::string_view why) {
  if (call.inputs[index].shape == shape) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("input {} wants shape {} ({}), got {}", index, shape.to_string(), why,
                          call.inputs[index].shape.to_string()));
}

void require_broadcast(const OpCall& call, std::size_t index, const Shape& target) {
  const Shape& own = call.inputs[index].shape;
  const int skip = target.rank() - own.rank();
  bool fits = skip >= 0;
  for (int d = 0; fits && d < own.rank(); ++d) {
    fits = own[d] == 1 || own[d] == target[d + skip];
  }
  if (fits) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("input {} wants a shape that broadcasts to {}, got {}", index,
                          target.to_string(), own.to_string()));
}

int normal_axis(std::int64_t axis, int rank, std::string_view what) {
  if (axis >= -rank && axis < rank) return static_cast<int>(axis < 0 ? axis + rank : axis);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} {} is outside [{},{}) of a tensor of rank {}", what, axis, -rank,
                          rank, rank));
}

AxisView around(const Shape& shape, int axis) {
  AxisView view;
  for (int d = 0; d < shape.rank(); ++d) {
    (d < axis ? view.outer : d == axis ? view.size : view.inner) *= shape[d];
  }
  return view;
}

bool next_index(Dims& index, const Shape& shape) {
  for (int d = shape.rank() - 1; d >= 0; --d) {
    std::int64_t& i = index[static_cast<std::size_t>(d)];
    if (++i < shape[d]) return true;
    i = 0;
  }
  return false;
}

Dims zero_index(const Shape& shape) {
  Dims index;
  index.resize(static_cast<std::size_t>(shape.rank()));
  return index;
}

Dims broadcast_strides(const Shape& shape, const Shape& target) {
  const Dims own = row_major_strides(shape);
  Dims strides = zero_index(target);
  const int skip = target.rank() - shape.rank();
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == target[d + skip]) {
      strides[static_cast<std::size_t>(d + skip)] = own[static_cast<std::size_t>(d)];
    }
  }
  return strides;
}

std::int64_t dot(const Dims& index, const Dims& strides) {
  std::int64_t sum = 0;
  for (std::size_t d = 0; d < index.size(); ++d) {
    sum += index[d] * strides[d];
  }
  return sum;
}

}  // namespace tilemesh::ops
