#include <algorithm>
#include <functional>

#include "attribute_form.hpp"
#include "elements.hpp"
#include "tables.hpp"

namespace tilemesh::ops {
namespace {

std::vector<OperandType> infer_logic(const OpCall& call, Types types) {
  require_type(call, 0, types);
  require_same_type(call, 0, 1);
  return {rows(DType::boolean, broadcast(call.inputs[0].shape, call.inputs[1].shape))};
}
template <Types types>
std::vector<OperandType> infer_pair(const OpCall& call) {
  return infer_logic(call, types);
}

/// Compares with `Test`'s call operator, which takes both operands as one wide type.
template <class Test>
void run_compare(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Shape& shape = call.outputs[0].shape;
  visit_wide(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Loaded<T> a(inputs[0], call.inputs[0], shape);
    const Loaded<T> b(inputs[1], call.inputs[1], shape);
    for (std::int64_t i = 0; i < shape.element_count(); ++i) {
      outputs[0][i] = static_cast<std::byte>(Test{}(a[i], b[i]) ? 1 : 0);
    }
  });
}

struct Xor {
  template <class T>
  bool operator()(T a, T b) const {
    return (a != T{}) != (b != T{});
  }
};

std::vector<OperandType> infer_where(const OpCall& call) {
  require_type(call, 0, Types::boolean);
  require_same_type(call, 1, 2);
  const Shape values = broadcast(call.inputs[1].shape, call.inputs[2].shape);
  return {rows(call.inputs[1].dtype, broadcast(call.inputs[0].shape, values))};
}

void run_where(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Shape& shape = call.outputs[0].shape;
  const Loaded<std::uint8_t> condition(inputs[0], call.inputs[0], shape);
  const std::int64_t size = size_of(call.outputs[0].dtype);
  const Dims strides[] = {broadcast_strides(call.inputs[1].shape, shape),
                          broadcast_strides(call.inputs[2].shape, shape)};
  Dims index = zero_index(shape);
  for (std::int64_t i = 0; i < shape.element_count(); ++i, next_index(index, shape)) {
    const std::size_t side = condition[i] != 0 ? 0 : 1;
    const std::byte* from = inputs[1 + side] + dot(index, strides[side]) * size;
    std::copy(from, from + size, outputs[0] + i * size);
  }
}

void cast_form(AttributeForm& form) {
  form.dtype("to");
}
void convert_form(AttributeForm& form) {
  form.dtype("to", form.call().inputs[0].dtype);
}

std::vector<OperandType> infer_cast(const OpCall& call) {
  return {rows(static_cast<DType>(call.attributes.integer("to")), call.inputs[0].shape)};
}

void run_cast(const OpCall& call, Inputs inputs, Outputs outputs) {
  const OperandType& in = call.inputs[0];
  copy_elements(inputs[0], in.dtype, row_major_strides(in.shape), outputs[0], call.outputs[0].dtype,
                in.shape);
}

template <class Test, Types types>
constexpr OpDef compare(std::string_view name) {
  return {.name = name,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_pair<types>,
          .factors = broadcast_factors,
          .reference = run_compare<Test>};
}

constexpr OpDef kOps[] = {
    compare<std::equal_to<>, Types::any>("equal"),
    compare<std::less<>, Types::number>("less"),
    compare<std::less_equal<>, Types::number>("less_or_equal"),
    compare<std::greater<>, Types::number>("greater"),
    compare<std::greater_equal<>, Types::number>("greater_or_equal"),
    compare<std::logical_and<>, Types::boolean>("and"),
    compare<std::logical_or<>, Types::boolean>("or"),
    compare<Xor, Types::boolean>("xor"),
    {.name = "where",
     .min_inputs = 3,
     .max_inputs = 3,
     .infer = infer_where,
     .factors = broadcast_factors,
     .reference = run_where},
    {.name = "cast",
     .canonical = cast_form,
     .infer = infer_cast,
     .factors = broadcast_factors,
     .reference = run_cast},
    {.name = "convert",
     .canonical = convert_form,
     .infer = infer_cast,
     .factors = broadcast_factors,
     .reference = run_cast,
     .partial = PartialRule::moves},
};

}  // namespace

std::span<const OpDef> compare_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
