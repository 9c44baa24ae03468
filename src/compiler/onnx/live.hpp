#pragma once

#include <string_view>
#include <vector>

#include <onnx/onnx_pb.h>

namespace tilemesh::onnx_importer {

/// Which of the nodes the wanted values hang on, names used in subgraphs included.
std::vector<bool> live_nodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                             const std::vector<std::string_view>& wanted);

/// Names of the model's inputs whose values an import must know, by a static look at the graph: the
/// operands that ops need, and what these are computed from. May name too many, never too few.
std::vector<std::string_view> needed_inputs(const onnx::ModelProto& model);

}  // namespace tilemesh::onnx_importer
