// A mesh buffer has one owner.
// error: use of deleted function
#include <utility>

#include "tilemesh/mesh/mesh_buffer.hpp"

tilemesh::MeshBuffer take(tilemesh::MeshBuffer& buffer) {
#ifdef MUST_NOT_COMPILE
  return buffer;
#else
  return std::move(buffer);
#endif
}
