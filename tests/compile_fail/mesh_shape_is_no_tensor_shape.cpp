// The extent of a mesh and that of a tensor are different things.
// error: invalid initialization
#include "tilemesh/types/mesh_shape.hpp"
#include "tilemesh/types/shape.hpp"

std::int64_t elements(const tilemesh::Shape& shape);
std::int64_t elements(const tilemesh::Shape& shape) {
  return shape.element_count();
}

std::int64_t count(const tilemesh::Shape& shape, const tilemesh::MeshShape& mesh) {
#ifdef MUST_NOT_COMPILE
  return elements(mesh) + elements(shape);
#else
  return mesh.device_count() + elements(shape);
#endif
}
