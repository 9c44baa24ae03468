// An executable doesn't turn into a model, with a state of its own, by being passed.
// error: could not convert
#include "tilemesh/runtime/model.hpp"

tilemesh::Model make(const tilemesh::Executable& executable) {
#ifdef MUST_NOT_COMPILE
  return executable;
#else
  return tilemesh::Model(executable);
#endif
}
