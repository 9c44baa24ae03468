#include "compiler/onnx/node.hpp"

/// Operators that pick and place elements by index.
namespace tilemesh::onnx_importer {
namespace {

void gather(Node& node) {
  const Value x = node.in(0);
  node.set(0, node.emit(node.row().op, {x, node.in(1)}, {{"axis", node.axis(0, node.rank(x))}}));
}

void gather_nd(Node& node) {
  node.set(0, node.emit("gather_nd", {node.in(0), node.in(1)},
                        {{"batch_dims", node.integer("batch_dims", 0)}}));
}

void scatter_elements(Node& node) {
  const Value x = node.in(0);
  node.set(0, node.emit("scatter_elements", {x, node.in(1), node.in(2)},
                        {{"axis", node.axis(0, node.rank(x))},
                         {"reduction", node.text("reduction", "none")}}));
}

void scatter_nd(Node& node) {
  node.set(0, node.emit("scatter_nd", {node.in(0), node.in(1), node.in(2)},
                        {{"reduction", node.text("reduction", "none")}}));
}

void one_hot(Node& node) {
  const Value indices = node.in(0);
  const Value integers = is_float(node.dtype(indices)) ? node.cast(indices, DType::i64) : indices;
  node.set(0, node.emit("one_hot", {integers, node.in(2)},
                        {{"depth", node.known_integer(1, "depth")},
                         {"axis", node.axis(-1, node.rank(indices) + 1)}}));
}

void reverse_sequence(Node& node) {
  node.set(0, node.emit("reverse_sequence", {node.in(0), node.in(1)},
                        {{"batch_axis", node.integer("batch_axis", 1)},
                         {"time_axis", node.integer("time_axis", 0)}}));
}

void trilu(Node& node) {
  node.set(0, node.emit("trilu", {node.in(0)},
                        {{"upper", node.integer("upper", 1)},
                         {"k", node.has(1) ? node.known_integer(1, "k") : std::int64_t{0}}}));
}

constexpr OnnxOp kRows[] = {
    {.name = "Gather", .handler = gather, .op = "gather"},
    {.name = "GatherElements", .since = 11, .handler = gather, .op = "gather_elements"},
    {.name = "GatherND", .since = 11, .handler = gather_nd},
    {.name = "OneHot", .since = 9, .handler = one_hot, .values_needed = 0b10},
    {.name = "ReverseSequence", .since = 10, .handler = reverse_sequence},
    {.name = "Scatter", .since = 9, .handler = scatter_elements},
    {.name = "ScatterElements", .since = 11, .handler = scatter_elements},
    {.name = "ScatterND", .since = 11, .handler = scatter_nd},
    {.name = "Trilu", .since = 14, .handler = trilu, .values_needed = 0b10},
};

}  // namespace

std::span<const OnnxOp> index_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
