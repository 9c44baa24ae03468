#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "tilemesh/base/inline_vector.hpp"
#include "tilemesh/types/strided.hpp"

#include "nest.hpp"

namespace tilemesh::detail {

using LayoutLoops = InlineVector<LayoutLoop, 14>;
/// layout_loops without the heap.
LayoutLoops loops_of(const Layout& layout, const Shape& shape);

/// How memory moves when one dim's index does: one level per block, coarsest first. An index is
/// split into digits by the steps; each digit moves memory by its stride.
struct AxisLevel {
  std::int64_t step = 1;  ///< indices; each level's is a multiple of the next one's; the last is 1
  std::int64_t stride = 0;  ///< bytes
};
using AxisLevels = InlineVector<AxisLevel, 7>;
/// By dim.
using Axes = std::array<AxisLevels, kMaxRank>;

Axes axes_of(const Layout& layout, const Shape& shape, std::int64_t element_bytes);
Axes axes_of(const Dims& strides, std::int64_t element_bytes);

/// The same for two sides at once.
struct PairLevel {
  std::int64_t step = 1;
  std::int64_t from = 0;
  std::int64_t to = 0;
};
using PairLevels = InlineVector<PairLevel, 13>;
using PairAxes = std::array<PairLevels, kMaxRank>;

/// The common refinement of both sides' levels. False if on some dim the blocks of one side don't
/// divide those of the other (3 and 4, say): then no box of loops fits both.
bool pair_axes(const Axes& from, const Axes& to, int rank, PairAxes& pairs);

struct IndexRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Covers a range of indices of every dim with boxes that plain loops can visit, and calls
/// visit(nest, source offset, target offset), in bytes, for each. A range that starts and ends on
/// multiples of the coarsest step is one box.
template <class Visit>
void for_each_box(std::span<const PairLevels> axes, std::span<const IndexRange> ranges,
                  const Nest& nest, std::int64_t from, std::int64_t to, Visit& visit) {
  if (axes.empty()) {
    visit(nest, from, to);
    return;
  }
  const PairLevels& levels = axes.front();
  std::int64_t index = ranges.front().begin;
  while (index < ranges.front().end) {
    // The coarsest step that fits here, as often as it fits before a coarser one does.
    const std::int64_t left = ranges.front().end - index;
    std::size_t at = 0;
    while (index % levels[at].step != 0 || left < levels[at].step)
      ++at;
    std::int64_t count = left / levels[at].step;
    if (at > 0) {
      const std::int64_t coarser = levels[at - 1].step;
      count = std::min(count, (coarser - index % coarser) / levels[at].step);
    }
    Nest inner = nest;
    inner.push_back({count, levels[at].from, levels[at].to});
    for (std::size_t finer = at + 1; finer < levels.size(); ++finer) {
      const PairLevel& level = levels[finer];
      inner.push_back({levels[finer - 1].step / level.step, level.from, level.to});
    }
    std::int64_t from_here = from;
    std::int64_t to_here = to;
    for (std::int64_t rest = index; const PairLevel& level : levels) {
      from_here += rest / level.step * level.from;
      to_here += rest / level.step * level.to;
      rest %= level.step;
    }
    for_each_box(axes.subspan(1), ranges.subspan(1), inner, from_here, to_here, visit);
    index += count * levels[at].step;
  }
}

}  // namespace tilemesh::detail
