#pragma once

#include <filesystem>

#include "tilemesh/compiler/graph.hpp"

namespace tilemesh {

/// Reads a file that holds one ONNX TensorProto (the `input_0.pb` of a test folder); external data
/// lies relative to its folder, and in it or in `data_root` (see OnnxOptions). Throws io when it
/// can't be read, invalid_file when it is no tensor or its sizes disagree, unsupported for strings,
/// sequences, optionals and exotic element types.
ConstantData read_onnx_tensor(const std::filesystem::path& path,
                              const std::filesystem::path& data_root = {});

}  // namespace tilemesh
