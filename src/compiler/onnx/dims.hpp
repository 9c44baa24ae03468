#pragma once

#include <string>
#include <vector>

#include "tilemesh/compiler/compile.hpp"

namespace onnx {
class GraphProto;
}  // namespace onnx

namespace tilemesh::onnx_importer {

/// One dim of an input as the model declares it.
struct DeclaredDim {
  std::int64_t size = -1;  ///< -1: open
  std::string symbol;      ///< name of an open dim; empty: it has none
  std::string to_string() const;
};

/// A graph input that isn't an initializer too.
struct DeclaredInput {
  std::string name;
  DType dtype = DType::f32;
  bool has_rank = false;
  std::vector<DeclaredDim> dims;
};

/// Throws unsupported for inputs that aren't tensors, invalid_file for a broken declaration.
std::vector<DeclaredInput> declared_inputs(const onnx::GraphProto& graph);

/// The shape of each input, from options.shapes, options.values and options.dims. Throws
/// invalid_argument where these disagree with the declaration or each other, and where dims stay
/// open: one message with all of them and the flags that bind them.
std::vector<Shape> bind_shapes(const std::vector<DeclaredInput>& inputs,
                               const OnnxOptions& options);

}  // namespace tilemesh::onnx_importer
