#include <cstring>
#include <functional>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "attribute_form.hpp"
#include "elements.hpp"
#include "tables.hpp"

/// Ops on the bits of integers, and bits seen as another dtype.
namespace tilemesh::ops {
namespace {

std::vector<OperandType> infer_pair(const OpCall& call) {
  require_type(call, 0, Types::integer);
  require_same_type(call, 0, 1);
  return {rows(call.inputs[0].dtype, broadcast(call.inputs[0].shape, call.inputs[1].shape))};
}

// All widths through 64 bits: what lies above an element's own is cut off when it is stored.
template <class Bits>
void run_pair(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Shape& shape = call.outputs[0].shape;
  const Loaded<std::int64_t> a(inputs[0], call.inputs[0], shape);
  const Loaded<std::int64_t> b(inputs[1], call.inputs[1], shape);
  auto y = zeros<std::int64_t>(shape.element_count());
  for (std::int64_t i = 0; i < shape.element_count(); ++i)
    y[static_cast<std::size_t>(i)] = Bits{}(a[i], b[i]);
  store(y, call.outputs[0], outputs[0]);
}

std::vector<OperandType> infer_not(const OpCall& call) {
  require_type(call, 0, Types::integer);
  return {rows(call.inputs[0].dtype, call.inputs[0].shape)};
}

void run_not(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Loaded<std::int64_t> x(inputs[0], call.inputs[0]);
  auto y = zeros<std::int64_t>(call.inputs[0].shape.element_count());
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] = ~x[static_cast<std::int64_t>(i)];
  store(y, call.outputs[0], outputs[0]);
}

void bit_cast_form(AttributeForm& form) {
  form.dtype("to");
}

int bits_of(DType dtype) {
  switch (dtype) {
    case DType::f4e2m1:
    case DType::i4:
    case DType::u4: return 4;
    case DType::i2:
    case DType::u2: return 2;
    default: return static_cast<int>(8 * size_of(dtype));
  }
}

std::vector<OperandType> infer_bit_cast(const OpCall& call) {
  const DType from = call.inputs[0].dtype;
  const auto to = static_cast<DType>(call.attributes.integer("to"));
  if (bits_of(from) != bits_of(to)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} has {} bits, {} has {}: the same number is wanted", to_string(from),
                            bits_of(from), to_string(to), bits_of(to)));
  }
  return {rows(to, call.inputs[0].shape)};
}

// A byte of a bool is 0 or 1, one of a small signed integer has its sign extended.
std::byte as_stored(DType dtype, std::byte byte) {
  const int value = std::to_integer<int>(byte);
  switch (dtype) {
    case DType::boolean: return std::byte{value != 0};
    case DType::i4: return static_cast<std::byte>(((value & 15) ^ 8) - 8);
    case DType::i2: return static_cast<std::byte>(((value & 3) ^ 2) - 2);
    case DType::u4:
    case DType::f4e2m1: return byte & std::byte{15};
    case DType::u2: return byte & std::byte{3};
    default: return byte;
  }
}

void run_bit_cast(const OpCall& call, Inputs inputs, Outputs outputs) {
  const OperandType& out = call.outputs[0];
  const auto bytes = static_cast<std::size_t>(out.shape.element_count() * size_of(out.dtype));
  if (size_of(out.dtype) > 1) {
    if (bytes > 0) std::memcpy(outputs[0], inputs[0], bytes);
    return;
  }
  for (std::size_t i = 0; i < bytes; ++i)
    outputs[0][i] = as_stored(out.dtype, inputs[0][i]);
}

template <class Bits>
constexpr OpDef pair(std::string_view name) {
  return {.name = name,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_pair,
          .factors = broadcast_factors,
          .reference = run_pair<Bits>};
}

constexpr OpDef kOps[] = {
    pair<std::bit_and<>>("bit_and"),
    pair<std::bit_or<>>("bit_or"),
    pair<std::bit_xor<>>("bit_xor"),
    {.name = "bit_not", .infer = infer_not, .factors = broadcast_factors, .reference = run_not},
    {.name = "bit_cast",
     .canonical = bit_cast_form,
     .infer = infer_bit_cast,
     .factors = broadcast_factors,
     .reference = run_bit_cast},
};

}  // namespace

std::span<const OpDef> bit_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
