#include "nest.hpp"

#include <algorithm>
#include <cstring>

#include "tilemesh/types/strided.hpp"

namespace tilemesh::cpu::highway {
namespace {

/// The loops of one dim, outer to inner.
std::vector<LayoutLoop> loops_of(std::span<const LayoutLoop> loops, int dim) {
  std::vector<LayoutLoop> own;
  std::ranges::copy_if(loops, std::back_inserter(own),
                       [&](const LayoutLoop& loop) { return loop.dim == dim; });
  return own;
}

/// An operand seen from the output: which of its dims runs along each dim of the output.
struct Follower {
  Follower(const OperandType& output, const OperandType& operand)
      : shape(operand.shape),
        loops(layout_loops(operand.layout, operand.shape)),
        shift(output.shape.rank() - operand.shape.rank()) {}

  /// -1 along dims where it is broadcast. `extent` is the output's size there.
  int own_dim(int dim, std::int64_t extent) const {
    const int own = dim - shift;
    return own < 0 || (shape[own] == 1 && extent != 1) ? -1 : own;
  }

  Shape shape;
  std::vector<LayoutLoop> loops;
  int shift;
};

/// The stride of steps of `step` indices, `size` of them, along a dim with these loops; nothing if
/// they aren't evenly spaced in memory.
std::optional<std::int64_t> stride_along(std::span<const LayoutLoop> loops, std::int64_t step,
                                         std::int64_t size) {
  for (const LayoutLoop& loop : loops) {
    if (loop.dim_step > step) continue;
    const bool inside = step * size <= loop.dim_step * loop.size;
    if (step % loop.dim_step != 0 || !inside) return std::nullopt;
    return step / loop.dim_step * loop.stride;
  }
  return std::nullopt;
}

/// Splits the output's loops where the operand's blocks end. False if they end elsewhere.
bool split_at_blocks(std::vector<LayoutLoop>& loops, const Follower& operand, const Shape& shape) {
  for (int dim = 0; dim < shape.rank(); ++dim) {
    const int own = operand.own_dim(dim, shape[dim]);
    if (own < 0) continue;
    for (const LayoutLoop& block : loops_of(operand.loops, own)) {
      const std::int64_t step = block.dim_step;
      for (std::size_t i = 0; i < loops.size(); ++i) {
        const LayoutLoop loop = loops[i];
        if (loop.dim != dim || step <= loop.dim_step || step >= loop.dim_step * loop.size) continue;
        const std::int64_t inner = step / loop.dim_step;
        if (step % loop.dim_step != 0 || loop.size % inner != 0) return false;
        loops[i] = {dim, loop.size / inner, step, loop.stride * inner};
        loops.insert(loops.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                     {dim, inner, loop.dim_step, loop.stride});
      }
    }
  }
  return true;
}

/// The operand's stride along every loop; nothing if it can't be followed.
std::optional<std::vector<std::int64_t>> follow(std::span<const LayoutLoop> loops,
                                                const Follower& operand, const Shape& shape) {
  std::vector<std::int64_t> strides;
  for (const LayoutLoop& loop : loops) {
    const int own = operand.own_dim(loop.dim, shape[loop.dim]);
    std::optional<std::int64_t> stride = 0;
    if (own >= 0) stride = stride_along(loops_of(operand.loops, own), loop.dim_step, loop.size);
    if (!stride) return std::nullopt;
    strides.push_back(*stride);
  }
  return strides;
}

bool can_merge(const NestLoop& outer, const NestLoop& inner) {
  if (outer.out_stride != inner.out_stride * inner.size) return false;
  for (std::size_t k = 0; k < inner.strides.size(); ++k) {
    if (outer.strides[k] != inner.strides[k] * inner.size) return false;
  }
  return true;
}

Nest merged(const Nest& loops) {
  Nest result;
  for (const NestLoop& loop : loops) {
    if (loop.size == 1) continue;
    if (!result.empty() && can_merge(result.back(), loop)) {
      NestLoop joined = loop;
      joined.size *= result.back().size;
      result.back() = std::move(joined);
    } else {
      result.push_back(loop);
    }
  }
  if (result.empty()) {
    const std::size_t operands = loops.empty() ? 0 : loops.front().strides.size();
    result.push_back({1, 1, std::vector<std::int64_t>(operands, 0)});
  }
  return result;
}

}  // namespace

Walk::Walk(const OperandType& output, std::span<const OperandType* const> operands)
    : follows(operands.size(), true) {
  std::vector<LayoutLoop> loops = layout_loops(output.layout, output.shape);
  std::vector<Follower> followers;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    followers.emplace_back(output, *operands[k]);
    std::vector<LayoutLoop> split = loops;
    follows[k] = split_at_blocks(split, followers[k], output.shape) &&
                 follow(split, followers[k], output.shape).has_value();
    if (follows[k]) loops = std::move(split);
  }
  for (const LayoutLoop& loop : loops) {
    nest.push_back({loop.size, loop.stride, std::vector<std::int64_t>(operands.size(), 0)});
  }
  if (loops.empty()) nest.push_back({1, 1, std::vector<std::int64_t>(operands.size(), 0)});
  for (std::size_t k = 0; k < operands.size(); ++k) {
    if (!follows[k] || loops.empty()) continue;
    const auto strides = follow(loops, followers[k], output.shape);
    follows[k] = strides.has_value();
    for (std::size_t i = 0; strides && i < loops.size(); ++i) {
      nest[i].strides[k] = (*strides)[i];
    }
  }
  nest = merged(nest);
}

Layout layout_to_follow(const OperandType& output, const OperandType& operand) {
  const Follower follower(output, operand);
  Layout::Order order;
  Layout::Blocks blocks;
  for (const std::int8_t dim : output.layout.order(output.shape.rank())) {
    const int own = dim - follower.shift;
    if (own >= 0) order.push_back(static_cast<std::int8_t>(own));
  }
  for (const Layout::Block& block : output.layout.blocks()) {
    const int own = follower.own_dim(block.dim, output.shape[block.dim]);
    if (own >= 0) blocks.push_back({own, block.size});
  }
  return {order, blocks};
}

bool pads_like(const OperandType& output, const OperandType& operand) {
  const Follower follower(output, operand);
  const Shape padded = output.layout.padded(output.shape);
  const Shape own_padded = operand.layout.padded(operand.shape);
  for (int dim = 0; dim < padded.rank(); ++dim) {
    if (padded[dim] == output.shape[dim]) continue;
    const int own = follower.own_dim(dim, output.shape[dim]);
    if (own < 0 || own_padded[own] < padded[dim]) return false;
  }
  return true;
}

std::vector<Box> padding_of(const OperandType& type) {
  const std::vector<LayoutLoop> loops = layout_loops(type.layout, type.shape);
  const Shape padded = type.layout.padded(type.shape);
  std::vector<Box> boxes;
  // The indices of a dim from its size on, written in the mixed radix of its loops: those that
  // agree with the size's own digits up to one place and are greater there, and the size itself.
  for (int dim = 0; dim < padded.rank(); ++dim) {
    if (padded[dim] == type.shape[dim] || padded.element_count() == 0) continue;
    const std::vector<LayoutLoop> own = loops_of(loops, dim);
    for (std::size_t place = 0; place < own.size(); ++place) {
      Box box;
      std::int64_t rest = type.shape[dim];
      std::size_t seen = 0;
      for (const LayoutLoop& loop : loops) {
        if (loop.dim != dim || seen > place) {
          box.sides.push_back({loop.size, loop.stride});
          continue;
        }
        const std::int64_t digit = rest / loop.dim_step;
        rest %= loop.dim_step;
        const bool last = seen + 1 == own.size();
        const std::int64_t first = seen == place && !last ? digit + 1 : digit;
        box.offset += first * loop.stride;
        if (seen == place) box.sides.push_back({loop.size - first, loop.stride});
        ++seen;
      }
      const bool empty =
          std::ranges::any_of(box.sides, [](const Box::Side& side) { return side.size <= 0; });
      if (!empty) boxes.push_back(std::move(box));
    }
  }
  for (Box& box : boxes) {
    std::vector<Box::Side> joined;
    for (const Box::Side& side : box.sides) {
      if (side.size == 1) continue;
      if (!joined.empty() && joined.back().stride == side.stride * side.size) {
        joined.back() = {joined.back().size * side.size, side.stride};
      } else {
        joined.push_back(side);
      }
    }
    box.sides = std::move(joined);
  }
  return boxes;
}

namespace {

void zero(std::span<const Box::Side> sides, std::int64_t element_bytes, std::byte* data) {
  if (sides.empty()) {
    std::memset(data, 0, static_cast<std::size_t>(element_bytes));
    return;
  }
  const Box::Side side = sides.front();
  if (sides.size() == 1 && side.stride == 1) {
    std::memset(data, 0, static_cast<std::size_t>(side.size * element_bytes));
    return;
  }
  for (std::int64_t i = 0; i < side.size; ++i) {
    zero(sides.subspan(1), element_bytes, data + i * side.stride * element_bytes);
  }
}

}  // namespace

void fill_with_zeros(std::span<const Box> boxes, std::int64_t element_bytes, std::byte* data) {
  for (const Box& box : boxes) {
    zero(box.sides, element_bytes, data + box.offset * element_bytes);
  }
}

}  // namespace tilemesh::cpu::highway
