#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tilemesh/ops/op.hpp"

namespace tilemesh::cpu::highway {

/// One loop over an output's memory, with the strides in elements that each operand takes along it.
struct NestLoop {
  std::int64_t size = 1;
  std::int64_t out_stride = 1;
  std::vector<std::int64_t> strides;  ///< one per operand
};

/// The loops over a whole output, outermost first, merged as far as all operands allow. Without
/// padding their sizes multiply to the output's elements; never empty (a scalar is one loop of 1).
using Nest = std::vector<NestLoop>;

/// Strides of one operand along the output's loops, or nothing if its layout doesn't split its dims
/// in the same places, or ends where the output is padded.
struct Walk {
  /// Follows `operand` (broadcast to `output`'s shape, right-aligned) over the output's memory,
  /// padding included.
  Walk(const OperandType& output, std::span<const OperandType* const> operands);

  Nest nest;
  std::vector<bool> follows;  ///< per operand; false: its strides are zeros without meaning
};

/// The layout in which an operand can be followed over `output`'s memory: the output's blocks on
/// those dims that aren't broadcast.
Layout layout_to_follow(const OperandType& output, const OperandType& operand);

/// True if the operand has an element of its own at every padded place of the output: then it is
/// zero there.
bool pads_like(const OperandType& output, const OperandType& operand);

/// A box of an output's memory: `offset` elements in, with loops of (size, stride).
struct Box {
  std::int64_t offset = 0;
  struct Side {
    std::int64_t size = 1;
    std::int64_t stride = 1;
  };
  std::vector<Side> sides;  ///< outermost first
};
/// Boxes that together are the padding of a layout (they may overlap).
std::vector<Box> padding_of(const OperandType& type);
void fill_with_zeros(std::span<const Box> boxes, std::int64_t element_bytes, std::byte* data);

}  // namespace tilemesh::cpu::highway
