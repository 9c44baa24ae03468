#include <fmt/format.h>

#include "compiler/onnx/node.hpp"

/// Reductions, scans and sorting along axes.
namespace tilemesh::onnx_importer {
namespace {

using Integers = std::vector<std::int64_t>;

// A reduction of nothing still takes its own step, the magnitude or the logarithm: it is one along
// a dim of one element.
Value reduce_no_dim(Node& node, Value x) {
  const Shape shape = node.shape(x);
  const Value line = node.reshape(x, {shape.element_count(), 1});
  const Value steps =
      node.emit(node.row().op, {line}, {{"axes", Integers{1}}, {"keepdims", std::int64_t{0}}});
  return node.reshape(steps, shape);
}

// Axes became an input in opset 13 for ReduceSum, in 18 for the others. No axes mean all, or none
// where noop_with_empty_axes says so.
void reduce(Node& node) {
  const Value x = node.in(0);
  const bool input = node.version() >= (node.row().name == "ReduceSum" ? 13 : 18);
  Integers axes = !input ? node.integers("axes") : Integers{};
  if (input && node.has(1)) axes = node.known_integers(1, "axes");
  if (axes.empty() && input && node.integer("noop_with_empty_axes", 0) != 0) {
    return node.set(0, reduce_no_dim(node, x));
  }
  Attributes attributes{{"keepdims", node.integer("keepdims", 1)}};
  if (!axes.empty()) attributes.set("axes", node.normal_axes(std::move(axes), node.rank(x)));
  node.set(0, node.emit(node.row().op, {x}, std::move(attributes)));
}

void arg_extreme(Node& node) {
  const Value x = node.in(0);
  node.set(0, node.emit(node.row().op, {x},
                        {{"axis", node.axis(0, node.rank(x))},
                         {"keepdims", node.integer("keepdims", 1)},
                         {"select_last_index", node.integer("select_last_index", 0)}}));
}

void cumulate(Node& node) {
  const Value x = node.in(0);
  const std::int64_t axis = node.normal_axis(node.known_integer(1, "axis"), node.rank(x));
  node.set(0, node.emit(node.row().op, {x},
                        {{"axis", axis},
                         {"exclusive", node.integer("exclusive", 0)},
                         {"reverse", node.integer("reverse", 0)}}));
}

void top_k(Node& node) {
  const Value x = node.in(0);
  const std::int64_t k =
      node.version() < 10 ? node.required_integer("k") : node.known_integer(1, "k");
  const std::int64_t axis = node.axis(-1, node.rank(x));
  if (k < 0 || k > node.shape(x)[static_cast<int>(axis)]) {
    node.invalid(fmt::format("k is {}, axis {} has {} elements", k, axis,
                             node.shape(x)[static_cast<int>(axis)]));
  }
  node.set_all(node.emit_many("top_k", {x},
                              {{"k", k},
                               {"axis", axis},
                               {"largest", node.integer("largest", 1)},
                               {"sorted", node.integer("sorted", 1)}},
                              2));
}

constexpr OnnxOp reduction(std::string_view name, std::string_view op) {
  return {.name = name, .handler = reduce, .op = op, .values_needed = 0b10};
}

constexpr OnnxOp kRows[] = {
    reduction("ReduceL1", "reduce_l1"),
    reduction("ReduceL2", "reduce_l2"),
    reduction("ReduceLogSum", "reduce_log_sum"),
    reduction("ReduceLogSumExp", "reduce_log_sum_exp"),
    reduction("ReduceMax", "reduce_max"),
    reduction("ReduceMean", "reduce_mean"),
    reduction("ReduceMin", "reduce_min"),
    reduction("ReduceProd", "reduce_prod"),
    reduction("ReduceSum", "reduce_sum"),
    reduction("ReduceSumSquare", "reduce_sum_square"),
    {.name = "ArgMax", .handler = arg_extreme, .op = "arg_max"},
    {.name = "ArgMin", .handler = arg_extreme, .op = "arg_min"},
    {.name = "CumProd", .since = 26, .handler = cumulate, .op = "cum_prod", .values_needed = 0b10},
    {.name = "CumSum", .since = 11, .handler = cumulate, .op = "cum_sum", .values_needed = 0b10},
    {.name = "TopK", .handler = top_k, .values_needed = 0b10},
};

}  // namespace

std::span<const OnnxOp> reduce_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
