#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "compiler/onnx/importer.hpp"

/// Operators whose number of results depends on the data.
namespace tilemesh::onnx_importer {
namespace {

/// Sets an output of which as many elements along `dim` are there as `count` says: of just this
/// size where that is known, and remembered as counted where it isn't.
void set_counted(Node& node, int output, Value value, int dim, Value count) {
  if (!node.wants(output)) return;
  if (node.is_constant(count)) {
    const std::int64_t size = read_as<std::int64_t>(*node.importer().graph()[count].constant)[0];
    using Integers = std::vector<std::int64_t>;
    value = node.emit("slice", {value},
                      {{"starts", Integers{0}},
                       {"ends", Integers{size}},
                       {"axes", Integers{dim}},
                       {"steps", Integers{1}}});
  } else {
    node.importer().set_counted(value, dim, count);
  }
  node.set(output, value);
}

/// The first operand and its axis: the attribute, or that of its elements in a row.
Value along_axis(Node& node, std::int64_t& axis) {
  const Value x = node.in(0);
  axis = 0;
  if (!node.has_attribute("axis")) {
    node.importer().require_whole(x, "flattens");
    return node.reshape(x, {node.shape(x).element_count()});
  }
  axis = node.axis(0, node.rank(x));
  return x;
}

/// Of known flags: just what they choose, whether or not the elements are known.
void choose(Node& node, Value x, std::int64_t axis) {
  const std::vector<std::int64_t> flags = read_as<std::int64_t>(node.known(1, "condition"));
  const std::int64_t size = node.shape(x)[static_cast<int>(axis)];
  if (std::cmp_greater(flags.size(), size)) {
    node.invalid(
        fmt::format("its condition has {} elements, axis {} has {}", flags.size(), axis, size));
  }
  std::vector<std::int64_t> chosen;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i] != 0) chosen.push_back(static_cast<std::int64_t>(i));
  }
  node.set(0, node.emit("gather", {x, node.integers_constant(chosen)}, {{"axis", axis}}));
}

void compress(Node& node) {
  std::int64_t axis = 0;
  const Value x = along_axis(node, axis);
  if (node.is_constant(node.in(1))) return choose(node, x, axis);
  const std::vector<Value> results =
      node.emit_many("compress", {x, node.in(1)}, {{"axis", axis}}, 2);
  set_counted(node, 0, results[0], static_cast<int>(axis), results[1]);
}

void non_zero(Node& node) {
  const std::vector<Value> results = node.emit_many("non_zero", {node.in(0)}, {}, 2);
  set_counted(node, 0, results[0], 1, results[1]);
}

void unique(Node& node) {
  std::int64_t axis = 0;
  const Value x = along_axis(node, axis);
  const std::vector<Value> results =
      node.emit_many("unique", {x}, {{"axis", axis}, {"sorted", node.integer("sorted", 1)}}, 5);
  set_counted(node, 0, results[0], static_cast<int>(axis), results[1]);
  set_counted(node, 1, results[2], 0, results[1]);
  if (node.wants(2)) node.set(2, results[3]);
  set_counted(node, 3, results[4], 0, results[1]);
}

void non_max_suppression(Node& node) {
  const std::int64_t most = node.has(2) ? node.known_integer(2, "max_output_boxes_per_class") : 0;
  std::vector<Value> operands = {node.in(0), node.in(1), node.in_or_none(3), node.in_or_none(4)};
  while (operands.back() == kNoValue)
    operands.pop_back();
  const std::vector<Value> results =
      node.emit_many("non_max_suppression", operands,
                     {{"max_per_class", std::max<std::int64_t>(most, 0)},
                      {"centers", node.integer("center_point_box", 0)}},
                     2);
  set_counted(node, 0, results[0], 0, results[1]);
}

constexpr OnnxOp kRows[] = {
    {.name = "Compress", .since = 9, .handler = compress},
    {.name = "NonMaxSuppression",
     .since = 10,
     .handler = non_max_suppression,
     .values_needed = 0b100},
    {.name = "NonZero", .since = 9, .handler = non_zero},
    {.name = "Unique", .since = 11, .handler = unique},
};

}  // namespace

std::span<const OnnxOp> bounded_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
