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

/// A tensor's elements. External data is looked up under `directory`, which it can't leave; an
/// empty directory means that there is none. Throws invalid_file where sizes disagree.
ConstantData read_tensor(const onnx::TensorProto& tensor, const std::filesystem::path& directory);

}  // namespace tilemesh::onnx_importer
