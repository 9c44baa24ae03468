#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

#include "compiler/onnx/quantization.hpp"

/// Operators of com.microsoft on weights of few bits in blocks, each with a scale of its own.
namespace tilemesh::onnx_importer {
namespace {

using Integers = std::vector<std::int64_t>;

// Integers of so many bits, the lowest first, one in a byte: from [rows, bytes] to [rows, count].
ConstantData unpacked(const ConstantData& packed, std::int64_t rows, std::int64_t count,
                      std::int64_t bits) {
  const std::int64_t in_a_byte = 8 / bits;
  const std::int64_t stride = ceil_div(count, in_a_byte);
  std::vector<std::uint8_t> values(static_cast<std::size_t>(checked_mul(rows, count)));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto byte = static_cast<std::size_t>(row * stride + i / in_a_byte);
      const auto value = std::to_integer<unsigned>((*packed.bytes)[byte]) >> (i % in_a_byte * bits);
      values[static_cast<std::size_t>(row * count + i)] =
          static_cast<std::uint8_t>(value & ((1U << bits) - 1));
    }
  }
  return make_constant(Shape({rows, count}), values);
}

// The [rows, count] integers of constant input `i`, which holds them packed.
Value unpacked_input(Node& node, int i, std::string_view what, const Shape& shape,
                     std::int64_t bits) {
  const ConstantData& packed = node.known(i, what);
  const std::int64_t bytes = checked_mul(shape[0], ceil_div(shape[1], 8 / bits));
  if (packed.dtype != DType::u8 || packed.shape.element_count() != bytes) {
    node.invalid(fmt::format("its {} are {}{}: {} bytes of u8 are wanted", what,
                             to_string(packed.dtype), packed.shape.to_string(), bytes));
  }
  return node.constant(unpacked(packed, shape[0], shape[1], bits));
}

void require_bits(const Node& node, std::int64_t bits, bool two) {
  if (bits == 4 || bits == 8 || (two && bits == 2)) return;
  node.unsupported(fmt::format("its bits are {}: {}4 and 8 are supported", bits, two ? "2, " : ""));
}

Value dequantized_blocks(Node& node, std::vector<Value> operands, std::int64_t axis,
                         std::int64_t block) {
  const DType dtype = node.dtype(operands[1]);
  return node.emit(
      "dequantize", std::move(operands),
      {{"dtype", static_cast<std::int64_t>(dtype)}, {"axis", axis}, {"block_size", block}});
}

Value first_columns(Node& node, Value x, std::int64_t count) {
  if (node.shape(x)[1] == count) return x;
  return node.emit("slice", {x},
                   {{"starts", Integers{0}},
                    {"ends", Integers{count}},
                    {"axes", Integers{1}},
                    {"steps", Integers{1}}});
}

/// MatMulNBits' weights, [columns, depth] in `blocks` of `block` integers, the last of which may
/// reach beyond the depth.
struct Packed {
  std::int64_t depth, columns, bits, block, blocks;

  explicit Packed(const Node& node)
      : depth(node.required_integer("K")),
        columns(node.required_integer("N")),
        bits(node.integer("bits", 4)),
        block(node.required_integer("block_size")),
        blocks(0) {
    require_bits(node, bits, true);
    if (depth < 1 || columns < 1 || block < 1) {
      node.invalid(fmt::format("its K is {}, its N {}, its block_size {}: each must be at least 1",
                               depth, columns, block));
    }
    blocks = ceil_div(depth, block);
  }

  Shape parameters() const { return {columns, blocks}; }
};

// [N, blocks] of u8: those given, or the middle of the range.
Value zero_points(Node& node, const Packed& packed) {
  if (node.has(3)) return unpacked_input(node, 3, "zero points", packed.parameters(), packed.bits);
  return node.scalar(DType::u8, static_cast<double>(1U << (packed.bits - 1)));
}

// A parameter of each block as one of each row of the depth: `groups` says whose.
Value by_group(Node& node, Value parameter, Value groups) {
  if (node.rank(parameter) == 0) return parameter;
  return node.emit("gather", {parameter, groups}, {{"axis", std::int64_t{1}}});
}

// The zero points are reals: (b - zero point) * scale, in blocks.
Value with_real_zero_points(Node& node, Value b, Value scale, const Packed& packed) {
  const Shape each{packed.columns, packed.blocks, 1};
  const Value blocks =
      node.reshape(node.cast(b, node.dtype(scale)), {packed.columns, packed.blocks, packed.block});
  const Value moved = node.emit("sub", {blocks, node.reshape(node.in(3), each)});
  return node.reshape(node.emit("mul", {moved, node.reshape(scale, each)}), node.shape(b));
}

Value weights_of(Node& node, const Packed& packed) {
  const Shape stored{packed.columns, checked_mul(packed.blocks, packed.block)};
  const Value b = unpacked_input(node, 1, "weights", stored, packed.bits);
  if (node.shape(node.in(2)).element_count() != packed.parameters().element_count()) {
    node.invalid(fmt::format("its scales are {}: {} are wanted", node.shape(node.in(2)).to_string(),
                             packed.parameters().to_string()));
  }
  const Value scale = node.reshape(node.in(2), packed.parameters());
  const bool real = node.has(3) && is_float(node.dtype(node.in(3)));
  if (node.has(4)) {
    if (real) node.unsupported("zero points in floats beside g_idx aren't supported: u8 are");
    const Value groups = node.reshape(node.in(4), {packed.depth});
    const std::vector<Value> operands = {first_columns(node, b, packed.depth),
                                         by_group(node, scale, groups),
                                         by_group(node, zero_points(node, packed), groups)};
    return dequantized_blocks(node, operands, 0, 0);
  }
  const Value weights =
      real ? with_real_zero_points(node, b, scale, packed)
           : dequantized_blocks(node, {b, scale, zero_points(node, packed)}, 1, packed.block);
  return first_columns(node, weights, packed.depth);
}

// (a [..., K], weights [N, blocks, bytes], scales [N, blocks], zero points, groups, bias). An
// accuracy_level asks for no less than it says; reals are more than any.
void matmul_n_bits(Node& node) {
  if (const std::int64_t packing = node.integer("weight_prepacked", 0); packing != 0) {
    node.unsupported(fmt::format(
        "its weight_prepacked is {}: only weights as ONNX lays them, 0, are supported", packing));
  }
  const Packed packed(node);
  const Value weights = node.cast(weights_of(node, packed), node.dtype(node.in(0)));
  const Value y = node.emit("matmul", {node.in(0), weights},
                            {{"transpose_a", std::int64_t{0}}, {"transpose_b", std::int64_t{1}}});
  node.set(0, node.has(5) ? node.emit("add", {y, node.in(5)}) : y);
}

/// GatherBlockQuantized's operands, integers of 8 bits.
struct Blocks {
  Value values = kNoValue;
  Value zero_points = kNoValue;
};

// Bytes that hold several integers along the last dim.
Value unpacked_rows(Node& node, int i, std::string_view what, std::int64_t last,
                    std::int64_t bits) {
  Dims sizes = node.shape(node.in(i)).sizes();
  if (sizes.empty()) node.invalid(fmt::format("its {} are a scalar", what));
  sizes.back() = last;
  std::int64_t rows = 1;
  for (std::size_t d = 0; d + 1 < sizes.size(); ++d)
    rows = checked_mul(rows, sizes[d]);
  return node.reshape(unpacked_input(node, i, what, {rows, last}, bits), Shape(sizes));
}

// Integers of 4 bits of their own dtype are widened, those in bytes are unpacked.
Blocks read_blocks(Node& node) {
  const DType dtype = node.dtype(node.in(0));
  if (dtype != DType::u8) {
    const DType wide = dtype == DType::i4 ? DType::i8 : DType::u8;
    return {node.cast(node.in(0), wide), node.has(3) ? node.cast(node.in(3), wide) : kNoValue};
  }
  const std::int64_t bits = node.integer("bits", 4);
  require_bits(node, bits, true);
  const Shape data = node.shape(node.in(0));
  const Shape scales = node.shape(node.in(2));
  if (data.rank() == 0 || scales.rank() != data.rank()) {
    node.invalid(fmt::format("its data {} and scales {} want the same rank of at least 1",
                             data.to_string(), scales.to_string()));
  }
  const std::int64_t last = checked_mul(data[data.rank() - 1], 8 / bits);
  Blocks blocks{unpacked_rows(node, 0, "data", last, bits)};
  blocks.zero_points = node.has(3)
                           ? unpacked_rows(node, 3, "zero points", scales[scales.rank() - 1], bits)
                           : node.scalar(DType::u8, static_cast<double>(1U << (bits - 1)));
  return blocks;
}

// (data, indices, scales, zero points): only what is gathered is made real.
void gather_block_quantized(Node& node) {
  const Blocks blocks = read_blocks(node);
  const int rank = node.rank(blocks.values);
  const std::int64_t gathered = node.normal_axis(node.integer("gather_axis", 0), rank);
  const std::int64_t axis = node.normal_axis(node.integer("quantize_axis", 1), rank);
  const std::int64_t block = node.integer("block_size", 128);
  if (block < 1) node.invalid(fmt::format("its block_size is {}: it must be at least 1", block));
  const auto picked = [&](Value x) {
    if (node.rank(x) == 0) return x;
    return node.emit("gather", {x, node.in(1)}, {{"axis", gathered}});
  };
  std::vector<Value> operands = {blocks.values, node.in(2)};
  if (blocks.zero_points != kNoValue) operands.push_back(blocks.zero_points);
  if (gathered == axis) {
    return node.set(0, picked(dequantized_blocks(node, operands, axis, block)));
  }
  for (Value& operand : operands)
    operand = picked(operand);
  const std::int64_t moved = axis > gathered ? axis + node.rank(node.in(1)) - 1 : axis;
  node.set(0, dequantized_blocks(node, operands, moved, block));
}

constexpr OnnxOp kRows[] = {
    microsoft("GatherBlockQuantized", gather_block_quantized),
    microsoft("MatMulNBits", matmul_n_bits),
};

}  // namespace

std::span<const OnnxOp> packed_weight_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
