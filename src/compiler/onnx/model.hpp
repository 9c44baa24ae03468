#pragma once

#include <string_view>

#include <onnx/onnx_pb.h>

namespace tilemesh {
class InputFile;
}  // namespace tilemesh

namespace tilemesh::onnx_importer {

/// Reads a model, checks its versions and brings its nodes into order. Throws io, invalid_file for
/// what is no model or has a cycle, unsupported for an IR version or opset that we don't know.
onnx::ModelProto read_model(const InputFile& file);
onnx::ModelProto parse_model(std::string_view bytes);

}  // namespace tilemesh::onnx_importer
