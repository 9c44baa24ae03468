#include "tilemesh/compiler/compile.hpp"
#include "tilemesh/runtime/model.hpp"

namespace tilemesh {

Model Model::compile(const Mesh& mesh, const std::filesystem::path& onnx,
                     const OnnxOptions& options, CompileOptions how) {
  how.mesh = mesh.shape();
  how.target = &default_target(mesh.device_count(), mesh.device(0).info().threads);
  const Binary binary = tilemesh::compile({import_onnx(onnx, options)}, how);
  return Model(prepare(mesh, binary.program()));
}

Model Model::compile(const Mesh& mesh, const std::filesystem::path& onnx,
                     const OnnxOptions& options) {
  return compile(mesh, onnx, options, {});
}

Model Model::compile(const Mesh& mesh, const std::filesystem::path& onnx) {
  return compile(mesh, onnx, OnnxOptions{});
}

}  // namespace tilemesh
