// A graph value's id is not an index that one computes with.
// error: cannot convert
#include "tilemesh/compiler/graph.hpp"

tilemesh::GraphValueId next(tilemesh::GraphValueId id) {
#ifdef MUST_NOT_COMPILE
  id = 1;
#else
  id = tilemesh::GraphValueId{1};
#endif
  return id;
}
