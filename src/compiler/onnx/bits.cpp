#include <fmt/format.h>

#include "compiler/onnx/node.hpp"
#include "compiler/onnx/tensor.hpp"

/// Operators that change how numbers are stored, and those on their bits.
namespace tilemesh::onnx_importer {
namespace {

Value converted(Node& node, Value x, DType to) {
  const std::string round = node.text("round_mode", "up");
  const bool saturates = node.integer("saturate", 1) != 0;
  if (round != "up" && round != "down" && round != "nearest") {
    node.invalid(fmt::format("its round_mode is \"{}\": up, down or nearest is wanted", round));
  }
  if (!is_storage(to) || (saturates && round == "up")) return node.cast(x, to);
  return node.emit("cast_narrow", {x},
                   {{"to", static_cast<std::int64_t>(to)},
                    {"saturate", std::int64_t{saturates}},
                    {"round_mode", round}});
}

void cast(Node& node) {
  node.set(0, converted(node, node.in(0), dtype_of(node.required_integer("to"), "to")));
}

void cast_like(Node& node) {
  node.set(0, converted(node, node.in(0), node.dtype(node.in(1))));
}

void bit_cast(Node& node) {
  const DType to = dtype_of(node.required_integer("to"), "to");
  node.set(0, node.emit("bit_cast", {node.in(0)}, {{"to", static_cast<std::int64_t>(to)}}));
}

constexpr OnnxOp kRows[] = {
    {.name = "BitCast", .since = 26, .handler = bit_cast},
    {.name = "BitwiseAnd", .since = 18, .handler = direct, .op = "bit_and"},
    {.name = "BitwiseNot", .since = 18, .handler = direct, .op = "bit_not"},
    {.name = "BitwiseOr", .since = 18, .handler = direct, .op = "bit_or"},
    {.name = "BitwiseXor", .since = 18, .handler = direct, .op = "bit_xor"},
    {.name = "Cast", .since = 6, .handler = cast},
    {.name = "CastLike", .since = 15, .handler = cast_like},
};

}  // namespace

std::span<const OnnxOp> bit_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
