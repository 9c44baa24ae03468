// No silent change of dtype.
// error: could not convert
#include "tilemesh/types/half.hpp"

tilemesh::Half narrow(float value) {
#ifdef MUST_NOT_COMPILE
  return value;
#else
  return tilemesh::Half(value);
#endif
}
