#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "tilemesh/runtime/submit.hpp"

namespace tilemesh {

struct OnnxOptions;
struct CompileOptions;

using NamedTensors = std::map<std::string, Tensor>;

/// The comfortable form: a program with its parameters and state kept on the mesh, run by name. Not
/// thread-safe (it has state).
class Model {
 public:
  static Model load(const Mesh& mesh, const std::filesystem::path& path,
                    std::string_view program = {});
  /// Imports and compiles an ONNX model for this mesh and this machine. Defined in builtin.
  static Model compile(const Mesh& mesh, const std::filesystem::path& onnx,
                       const OnnxOptions& options);
  /// The same, cut over the mesh as `how` says; its mesh and target are those of `mesh`.
  static Model compile(const Mesh& mesh, const std::filesystem::path& onnx,
                       const OnnxOptions& options, CompileOptions how);
  static Model compile(const Mesh& mesh, const std::filesystem::path& onnx);
  explicit Model(Executable executable);

  const Executable& executable() const { return executable_; }
  /// Sets a parameter (resident from now on) or a state's value.
  void set(std::string_view name, const Tensor& value);
  /// Activations by name; parameters and state only to replace them. States start as zeros.
  /// Outputs that are state stay inside. Waits.
  NamedTensors run(const NamedTensors& inputs);
  /// States back to zero.
  void reset();

 private:
  Executable executable_;
  std::map<int, Tensor> kept_;  // by input index: parameters and states
};

}  // namespace tilemesh
