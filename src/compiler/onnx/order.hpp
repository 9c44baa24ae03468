#pragma once

namespace onnx {
class ModelProto;
}  // namespace onnx

namespace tilemesh::onnx_importer {

/// Brings the nodes of a model, of its subgraphs and of its functions into an order in which each
/// value is made before it is read, as the format wants and exporters don't always keep; nodes that
/// are in order stay where they are. Throws invalid_file for a cycle, naming its values.
void sort_nodes(onnx::ModelProto& model);

}  // namespace tilemesh::onnx_importer
