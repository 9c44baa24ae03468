#include "compiler/onnx/constants.hpp"

namespace tilemesh::onnx_importer {

ConstantData filled(DType dtype, const Shape& shape, double value) {
  if (is_storage(dtype)) {
    const auto count = static_cast<std::size_t>(shape.element_count());
    std::byte byte{};
    convert_to_narrow(reinterpret_cast<const std::byte*>(&value), DType::f64, &byte, dtype, 1, {});
    return {dtype, shape, std::make_shared<const std::vector<std::byte>>(count, byte)};
  }
  return visit_dtype(dtype, [&]<class T>(std::type_identity<T>) -> ConstantData {
    const auto count = static_cast<std::size_t>(shape.element_count());
    if constexpr (std::is_same_v<T, bool>) {
      const std::byte byte{value != 0};
      return {dtype, shape, std::make_shared<const std::vector<std::byte>>(count, byte)};
    } else if constexpr (std::is_arithmetic_v<T>) {
      return make_constant(shape, std::vector<T>(count, static_cast<T>(value)));
    } else {
      return make_constant(shape, std::vector<T>(count, T(static_cast<float>(value))));
    }
  });
}

}  // namespace tilemesh::onnx_importer
