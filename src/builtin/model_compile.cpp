#include "tilemesh/compiler/compile.hpp"
#include "tilemesh/runtime/model.hpp"

namespace tilemesh {

Model Model::compile(const Mesh& mesh, const std::filesystem::path& onnx,
                     const OnnxOptions& options) {
  const Target& target = default_target(mesh.device_count(), mesh.device(0).info().threads);
  const Binary binary =
      tilemesh::compile({import_onnx(onnx, options)}, {.mesh = mesh.shape(), .target = &target});
  return Model(prepare(mesh, binary.program()));
}

Model Model::compile(const Mesh& mesh, const std::filesystem::path& onnx) {
  return compile(mesh, onnx, OnnxOptions{});
}

}  // namespace tilemesh
