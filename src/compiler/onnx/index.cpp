#include <fmt/format.h>

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

// Known conditions only: they decide the output's shape.
void compress(Node& node) {
  Value x = node.in(0);
  const std::vector<std::int64_t> condition = read_as<std::int64_t>(node.known(1, "condition"));
  std::int64_t axis = 0;
  if (node.has_attribute("axis")) {
    axis = node.axis(0, node.rank(x));
  } else {
    x = node.reshape(x, {node.shape(x).element_count()});
  }
  const std::int64_t size = node.shape(x)[static_cast<int>(axis)];
  if (std::cmp_greater(condition.size(), size)) {
    node.invalid(
        fmt::format("its condition has {} elements, axis {} has {}", condition.size(), axis, size));
  }
  std::vector<std::int64_t> chosen;
  for (std::size_t i = 0; i < condition.size(); ++i) {
    if (condition[i] != 0) chosen.push_back(static_cast<std::int64_t>(i));
  }
  node.set(0, node.emit("gather", {x, node.integers_constant(chosen)}, {{"axis", axis}}));
}

// Of known elements only, for the same reason.
void non_zero(Node& node) {
  const ConstantData& data = node.known(0, "elements");
  const std::vector<double> values = read_as<double>(data);
  const Dims strides = row_major_strides(data.shape);
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != 0) found.push_back(static_cast<std::int64_t>(i));
  }
  std::vector<std::int64_t> coordinates;
  for (int dim = 0; dim < data.shape.rank(); ++dim) {
    for (const std::int64_t at : found)
      coordinates.push_back(at / strides[static_cast<std::size_t>(dim)] % data.shape[dim]);
  }
  const Shape shape{data.shape.rank(), std::ssize(found)};
  node.set(0, node.constant(make_constant(shape, coordinates)));
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
    {.name = "Compress", .since = 9, .handler = compress, .values_needed = 0b10},
    {.name = "Gather", .handler = gather, .op = "gather"},
    {.name = "GatherElements", .since = 11, .handler = gather, .op = "gather_elements"},
    {.name = "GatherND", .since = 11, .handler = gather_nd},
    {.name = "NonZero", .since = 9, .handler = non_zero, .values_needed = 0b1},
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
