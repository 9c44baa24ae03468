#include "layout_boxes.hpp"

#include <algorithm>

namespace tilemesh::detail {

LayoutLoops loops_of(const Layout& layout, const Shape& shape) {
  const Shape padded = layout.padded(shape);
  LayoutLoops loops;
  Dims step;
  for (int dim = 0; dim < shape.rank(); ++dim)
    step.push_back(layout.block_of(dim));
  for (const std::int8_t dim : layout.order(shape.rank())) {
    const std::int64_t block = step[static_cast<std::size_t>(dim)];
    loops.push_back({dim, padded[dim] / block, block, 1});
  }
  for (const Layout::Block& block : layout.blocks()) {
    std::int64_t& remaining = step[static_cast<std::size_t>(block.dim)];
    remaining /= block.size;
    loops.push_back({block.dim, block.size, remaining, 1});
  }
  std::int64_t stride = 1;
  for (std::size_t i = loops.size(); i-- > 0;) {
    loops[i].stride = stride;
    stride *= std::max<std::int64_t>(loops[i].size, 1);
  }
  return loops;
}

Axes axes_of(const Layout& layout, const Shape& shape, std::int64_t element_bytes) {
  Axes axes;
  for (const LayoutLoop& loop : loops_of(layout, shape)) {
    axes[static_cast<std::size_t>(loop.dim)].push_back(
        {loop.dim_step, loop.stride * element_bytes});
  }
  return axes;
}

Axes axes_of(const Dims& strides, std::int64_t element_bytes) {
  Axes axes;
  for (std::size_t dim = 0; dim < strides.size(); ++dim) {
    axes[dim].push_back({1, strides[dim] * element_bytes});
  }
  return axes;
}

namespace {

/// Bytes that `step` indices move: whole steps of the coarsest level that isn't coarser.
std::int64_t stride_at(const AxisLevels& levels, std::int64_t step) {
  const auto level = std::find_if(levels.begin(), levels.end(),
                                  [&](const AxisLevel& l) { return l.step <= step; });
  return step / level->step * level->stride;
}

bool pair_levels(const AxisLevels& from, const AxisLevels& to, PairLevels& pairs) {
  std::size_t i = 0;
  std::size_t k = 0;
  while (i < from.size() || k < to.size()) {
    const std::int64_t a = i < from.size() ? from[i].step : 0;
    const std::int64_t b = k < to.size() ? to[k].step : 0;
    const std::int64_t step = std::max(a, b);
    if (!pairs.empty() && pairs.back().step % step != 0) return false;
    pairs.push_back({step, stride_at(from, step), stride_at(to, step)});
    if (a == step) ++i;
    if (b == step) ++k;
  }
  return true;
}

}  // namespace

bool pair_axes(const Axes& from, const Axes& to, int rank, PairAxes& pairs) {
  for (std::size_t dim = 0; dim < static_cast<std::size_t>(rank); ++dim) {
    if (!pair_levels(from[dim], to[dim], pairs[dim])) return false;
  }
  return true;
}

}  // namespace tilemesh::detail
