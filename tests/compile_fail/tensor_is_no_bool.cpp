// Whether a handle holds a tensor is asked for, never an operand by accident.
// error: cannot convert
#include "tilemesh/tensor/tensor.hpp"

bool given(const tilemesh::Tensor& tensor) {
#ifdef MUST_NOT_COMPILE
  const bool result = tensor;
#else
  const bool result = static_cast<bool>(tensor);
#endif
  return result;
}
