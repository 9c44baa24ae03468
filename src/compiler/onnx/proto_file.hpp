#pragma once

#include "tilemesh/base/input_file.hpp"

namespace google::protobuf {
class MessageLite;
}  // namespace google::protobuf

namespace tilemesh::onnx_importer {

/// Reads a message that a whole file holds; false if the file holds no such one. Throws io.
bool parse_file(const InputFile& file, google::protobuf::MessageLite& message);

}  // namespace tilemesh::onnx_importer
