#include "arrays.hpp"

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh::cli {

std::string to_string(const HostArray& array) {
  return fmt::format("{}{}", tilemesh::to_string(array.dtype), array.shape.to_string());
}

HostArray to_array(const ConstantData& data) {
  return {data.dtype, data.shape, *data.bytes};
}

ConstantData to_constant(const HostArray& array) {
  return {array.dtype, array.shape, std::make_shared<const std::vector<std::byte>>(array.bytes)};
}

HostArray as_stored(HostArray array, DType wanted) {
  if (array.dtype == DType::u8 && is_storage(wanted)) {
    array.dtype = wanted;
  }
  return array;
}

HostArray to_array(const Tensor& tensor) {
  HostArray result{tensor.dtype(), tensor.shape(), {}};
  result.bytes.resize(
      static_cast<std::size_t>(tensor.shape().element_count() * size_of(tensor.dtype())));
  tensor.read(result.bytes);
  return result;
}

Tensor to_tensor(const HostArray& array) {
  return Tensor::copy_bytes(array.bytes, array.dtype, {.shape = array.shape});
}

void check_input(const std::string& program, const std::string& name, const HostArray& array,
                 const TensorSpec& wanted) {
  if (array.dtype == wanted.dtype && array.shape == wanted.shape) {
    return;
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("input \"{}\" of program \"{}\" wants {}{}, got {}: change the array, or "
                          "compile for its shape",
                          name, program, tilemesh::to_string(wanted.dtype),
                          wanted.shape.to_string(), to_string(array)));
}

}  // namespace tilemesh::cli
