// A queue belongs to its mesh.
// error: use of deleted function
#include "tilemesh/mesh/mesh_queue.hpp"

tilemesh::MeshQueue& first(const tilemesh::Mesh& mesh) {
#ifdef MUST_NOT_COMPILE
  tilemesh::MeshQueue queue = mesh.queue(0);
#else
  tilemesh::MeshQueue& queue = mesh.queue(0);
#endif
  return queue;
}
