#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "tilemesh/compiler/graph.hpp"

namespace onnx {
class TensorProto;
}  // namespace onnx

namespace tilemesh::onnx_importer {

/// The DType of an ONNX element type (TensorProto.DataType); throws unsupported, naming `what`, for
/// those we don't have.
DType dtype_of(std::int64_t onnx_type, const std::string& what);

/// Where external data is looked for.
struct DataFolders {
  std::filesystem::path model;  ///< names are relative to it; empty: there is none
  std::filesystem::path root;   ///< what lies outside of the model's folder must lie here
};

/// A tensor's elements. Throws invalid_file where sizes disagree and for external data that leads
/// out of the folders.
ConstantData read_tensor(const onnx::TensorProto& tensor, const DataFolders& folders);

}  // namespace tilemesh::onnx_importer
