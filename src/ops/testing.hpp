#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/ops/op.hpp"
#include "tilemesh/types/dtype_traits.hpp"

/// For the tests of this part: values with their types, and ops called by name on them.
namespace tilemesh::ops::testing {

/// A row-major tensor.
struct Value {
  OperandType type;
  std::vector<std::byte> data;

  std::int64_t count() const { return type.shape.element_count(); }
};

inline OperandType type_of(DType dtype, const Shape& shape) {
  return {.dtype = dtype, .shape = shape, .layout = {}, .present = true};
}

inline Value empty_value(const OperandType& type) {
  return {type, std::vector<std::byte>(static_cast<std::size_t>(type.bytes()))};
}

/// A value of `dtype` from elements of any C++ element type.
template <class T>
Value value(DType dtype, const Shape& shape, const std::vector<T>& elements) {
  EXPECT_EQ(shape.element_count(), static_cast<std::int64_t>(elements.size()));
  Value result = empty_value(type_of(dtype, shape));
  copy_strided({reinterpret_cast<const std::byte*>(elements.data()), kDTypeOf<T>, shape,
                row_major_strides(shape)},
               {result.data.data(), dtype, shape, row_major_strides(shape)});
  return result;
}
inline Value f32(const Shape& shape, const std::vector<float>& elements) {
  return value(DType::f32, shape, elements);
}
inline Value i64(const Shape& shape, const std::vector<std::int64_t>& elements) {
  return value(DType::i64, shape, elements);
}
inline Value boolean(const Shape& shape, const std::vector<std::uint8_t>& elements) {
  return value(DType::boolean, shape, elements);
}
/// An optional input that isn't given.
inline Value absent() {
  Value result;
  result.type.present = false;
  return result;
}

/// All elements as T.
template <class T>
std::vector<T> elements(const Value& from) {
  std::vector<T> result(static_cast<std::size_t>(from.count()));
  copy_strided(
      {from.data.data(), from.type.dtype, from.type.shape, row_major_strides(from.type.shape)},
      {reinterpret_cast<std::byte*>(result.data()), kDTypeOf<T>, from.type.shape,
       row_major_strides(from.type.shape)});
  return result;
}

inline OpCall make_call(std::string_view op, const std::vector<Value>& inputs,
                        Attributes attributes = {}, std::size_t outputs = 0,
                        Expression epilogue = {}) {
  OpCall call;
  call.def = &get_op(op);
  call.attributes = std::move(attributes);
  call.epilogue = std::move(epilogue);
  for (const Value& input : inputs) {
    call.inputs.push_back(input.type);
  }
  call.outputs.resize(outputs);
  infer_outputs(call);
  return call;
}

/// Runs a call whose types are decided; layouts of `inputs` are those of the call.
inline std::vector<Value> run_call(const OpCall& call, const std::vector<Value>& inputs) {
  std::vector<const std::byte*> from;
  for (const Value& input : inputs) {
    from.push_back(input.type.present ? input.data.data() : nullptr);
  }
  std::vector<Value> results;
  std::vector<std::byte*> to;
  for (const OperandType& output : call.outputs) {
    results.push_back(empty_value(output));
  }
  for (Value& result : results) {
    // What an op forgets to write must show.
    std::ranges::fill(result.data, std::byte{0x77});
    to.push_back(result.type.present ? result.data.data() : nullptr);
  }
  run_reference(call, from, to);
  return results;
}

/// Infers and runs; gives all outputs.
inline std::vector<Value> run_all(std::string_view op, const std::vector<Value>& inputs,
                                  Attributes attributes = {}, std::size_t outputs = 0) {
  return run_call(make_call(op, inputs, std::move(attributes), outputs), inputs);
}
inline Value run(std::string_view op, const std::vector<Value>& inputs,
                 Attributes attributes = {}) {
  return run_all(op, inputs, std::move(attributes)).front();
}

/// The message that inferring fails with; empty if it doesn't.
inline std::string infer_error(std::string_view op, const std::vector<Value>& inputs,
                               Attributes attributes = {}, std::size_t outputs = 0) {
  try {
    make_call(op, inputs, std::move(attributes), outputs);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

}  // namespace tilemesh::ops::testing
