// A dtype is named, not numbered.
// error: could not convert
#include "tilemesh/types/tensor_spec.hpp"

tilemesh::TensorSpec spec() {
#ifdef MUST_NOT_COMPILE
  return {.shape = {2, 3}, .dtype = 1};
#else
  return {.shape = {2, 3}, .dtype = tilemesh::DType::f32};
#endif
}
