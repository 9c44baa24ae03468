#include "compiler/onnx/rotary.hpp"

#include <fmt/format.h>

namespace tilemesh::onnx_importer {

using Integers = std::vector<std::int64_t>;

Value slice_last(Node& node, Value x, std::int64_t start, std::int64_t end, std::int64_t step) {
  const Shape shape = node.shape(x);
  if (start == 0 && end == shape[shape.rank() - 1] && step == 1) return x;
  return node.emit("slice", {x},
                   {{"starts", Integers{start}},
                    {"ends", Integers{end}},
                    {"axes", Integers{shape.rank() - 1}},
                    {"steps", Integers{step}}});
}

namespace {

Value join_last(Node& node, const std::vector<Value>& parts) {
  return node.emit("concat", parts, {{"axis", std::int64_t{node.rank(parts[0]) - 1}}});
}

// [..., n] and [..., n] as [..., 2 n] of alternating elements.
Value alternate(Node& node, Value first, Value second) {
  const Shape shape = node.shape(first);
  Dims column = shape.sizes();
  column.push_back(1);
  const Value pairs =
      join_last(node, {node.reshape(first, Shape(column)), node.reshape(second, Shape(column))});
  return node.reshape(pairs, shape.with(shape.rank() - 1, 2 * shape[shape.rank() - 1]));
}

}  // namespace

Value rotated(Node& node, Value x, const Rotation& rotation) {
  const Shape shape = node.shape(x);
  const std::int64_t size = shape[shape.rank() - 1];
  const std::int64_t dim = rotation.dim == 0 ? size : rotation.dim;
  const Shape angles = node.shape(rotation.cos);
  const std::int64_t half = dim / 2;
  if (dim < 2 || dim > size || dim % 2 != 0 || angles[angles.rank() - 1] != half ||
      !(node.shape(rotation.sin) == angles)) {
    node.invalid(
        fmt::format("it turns {} of the {} numbers of a head by cosines {} and sines {}: half as "
                    "many are wanted",
                    dim, size, angles.to_string(), node.shape(rotation.sin).to_string()));
  }
  const bool pairs = rotation.interleaved;
  const Value a = pairs ? slice_last(node, x, 0, dim, 2) : slice_last(node, x, 0, half);
  const Value b = pairs ? slice_last(node, x, 1, dim, 2) : slice_last(node, x, half, dim);
  const auto mul = [&](Value p, Value q) {
    return node.emit("mul", {p, q});
  };
  const Value real = node.emit("sub", {mul(rotation.cos, a), mul(rotation.sin, b)});
  const Value imaginary = node.emit("add", {mul(rotation.sin, a), mul(rotation.cos, b)});
  const Value turned =
      pairs ? alternate(node, real, imaginary) : join_last(node, {real, imaginary});
  if (dim == size) return turned;
  return join_last(node, {turned, slice_last(node, x, dim, size)});
}

}  // namespace tilemesh::onnx_importer
