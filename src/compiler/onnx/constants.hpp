#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "tilemesh/compiler/graph.hpp"
#include "tilemesh/types/dtype_traits.hpp"
#include "tilemesh/types/narrow.hpp"

/// Small constants that handlers read and make.
namespace tilemesh::onnx_importer {

/// A constant of this shape holding `values`, as many as the shape has elements.
template <class T>
ConstantData make_constant(const Shape& shape, const std::vector<T>& values) {
  auto bytes = std::make_shared<std::vector<std::byte>>(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes->data(), values.data(), bytes->size());
  return {kDTypeOf<T>, shape, std::move(bytes)};
}

/// Elements converted as static_cast does; half types and storage formats go through float, and
/// what an integer can't hold becomes 0.
template <class T>
std::vector<T> read_as(const ConstantData& data) {
  std::vector<T> values(static_cast<std::size_t>(data.shape.element_count()));
  if (is_storage(data.dtype)) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<T>(decode_narrow(data.dtype, (*data.bytes)[i]));
    return values;
  }
  return visit_dtype(data.dtype, [&]<class Element>(std::type_identity<Element>) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_same_v<Element, bool>) {
        values[i] = static_cast<T>((*data.bytes)[i] != std::byte{0});
      } else {
        Element element;
        std::memcpy(&element, data.bytes->data() + i * sizeof(Element), sizeof(Element));
        if constexpr (std::is_same_v<Element, Half> || std::is_same_v<Element, BFloat16>) {
          values[i] = static_cast<T>(static_cast<float>(element));
        } else if constexpr (std::is_floating_point_v<Element> && std::is_integral_v<T>) {
          values[i] = element > -9.2e18 && element < 9.2e18 ? static_cast<T>(element) : T{};
        } else {
          values[i] = static_cast<T>(element);
        }
      }
    }
    return values;
  });
}

/// `value` repeated, in any dtype; it must be in the dtype's range.
ConstantData filled(DType dtype, const Shape& shape, double value);

}  // namespace tilemesh::onnx_importer
