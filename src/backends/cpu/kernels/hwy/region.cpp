#include "region.hpp"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "tilemesh/types/strided.hpp"

namespace tilemesh::cpu::highway {
namespace {

/// One dim of a side: its loops, outer to inner.
struct SideDim {
  std::vector<LayoutLoop> loops;
  bool blocked() const { return loops.size() > 1; }
};

std::vector<SideDim> dims_of(const OperandType& type) {
  std::vector<SideDim> dims(static_cast<std::size_t>(type.shape.rank()));
  for (const LayoutLoop& loop : layout_loops(type.layout, type.shape)) {
    dims[static_cast<std::size_t>(loop.dim)].loops.push_back(loop);
  }
  return dims;
}

std::int64_t offset_of(const SideDim& dim, std::int64_t index) {
  std::int64_t offset = 0;
  for (const LayoutLoop& loop : dim.loops) {
    offset += index / loop.dim_step * loop.stride;
    index %= loop.dim_step;
  }
  return offset;
}

/// A piece of a span: evenly spaced on both sides, or a few loops that are.
struct Piece {
  std::int64_t from_offset = 0;
  std::int64_t to_offset = 0;
  std::vector<CopyLoop> loops;
};

/// The largest step, at most `limit`, at which both sides are evenly spaced from these indices on;
/// the steps of the sides' loops are the candidates.
std::int64_t common_step(const SideDim* from, const SideDim* to, std::int64_t from_index,
                         std::int64_t to_index, std::int64_t limit) {
  std::int64_t best = 1;
  for (const SideDim* side : {from, to}) {
    if (side == nullptr) continue;
    for (const LayoutLoop& loop : side->loops) {
      const std::int64_t step = loop.dim_step;
      if (step <= best || step > limit || from_index % step != 0 || to_index % step != 0) continue;
      const auto fits = [step](const SideDim* other) {
        return other == nullptr || std::ranges::all_of(other->loops, [step](const LayoutLoop& own) {
                 return own.dim_step % step == 0 || step % own.dim_step == 0;
               });
      };
      if (fits(from) && fits(to)) best = step;
    }
  }
  return best;
}

/// The stride of the steps of size `step` and how many of them fit from `index` on before an outer
/// loop takes over.
struct Run {
  std::int64_t stride = 0;
  std::int64_t count = 0;
};
Run run_of(const SideDim& dim, std::int64_t index, std::int64_t step) {
  for (std::size_t i = 0; i < dim.loops.size(); ++i) {
    const LayoutLoop& loop = dim.loops[i];
    if (loop.dim_step > step) continue;
    const std::int64_t stride = step / loop.dim_step * loop.stride;
    if (i == 0) return {stride, INT64_MAX};
    const std::int64_t period = dim.loops[i - 1].dim_step;
    return {stride, (period - index % period) / step};
  }
  return {0, 0};
}

/// Loops that fill one step of `step` indices, which starts at a multiple of it on both sides.
void add_inner_loops(const SideDim* from, const SideDim* to, std::int64_t step,
                     std::vector<CopyLoop>& loops) {
  while (step > 1) {
    std::int64_t next = 1;
    for (const SideDim* side : {from, to}) {
      if (side == nullptr) continue;
      for (const LayoutLoop& loop : side->loops) {
        if (loop.dim_step < step) next = std::max(next, loop.dim_step);
      }
    }
    loops.push_back({step / next, from == nullptr ? 0 : run_of(*from, 0, next).stride,
                     to == nullptr ? 0 : run_of(*to, 0, next).stride});
    step = next;
  }
}

/// A span with step 1 along dims of which one is blocked, cut where the blocks end.
std::vector<Piece> cut_at_blocks(const Span& span, const SideDim* from, const SideDim* to,
                                 std::int64_t from_index, std::int64_t to_index) {
  std::vector<Piece> pieces;
  for (std::int64_t rest = span.size; rest > 0;) {
    const std::int64_t step = common_step(from, to, from_index, to_index, rest);
    const Run source = from == nullptr ? Run{0, INT64_MAX} : run_of(*from, from_index, step);
    const Run target = to == nullptr ? Run{0, INT64_MAX} : run_of(*to, to_index, step);
    const std::int64_t count = std::min({rest / step, source.count, target.count});
    Piece piece{.from_offset = from == nullptr ? 0 : offset_of(*from, from_index),
                .to_offset = to == nullptr ? 0 : offset_of(*to, to_index),
                .loops = {{count, source.stride, target.stride}}};
    add_inner_loops(from, to, step, piece.loops);
    pieces.push_back(std::move(piece));
    rest -= count * step;
    from_index += count * step;
    to_index += count * step;
  }
  if (span.size == 0) pieces.push_back({0, 0, {{0, 0, 0}}});
  return pieces;
}

class Splitter {
 public:
  Splitter(const OperandType& from, const OperandType& to, const Region& region)
      : region_(region), from_(dims_of(from)), to_(dims_of(to)) {}

  std::vector<Piece> split() {
    check();
    Piece start;
    for (std::size_t dim = 0; dim < from_.size(); ++dim) {
      const bool still = !from_[dim].blocked() || spans_along(true, dim) == 0;
      if (still) start.from_offset += offset_of(from_[dim], region_.from_start[dim]);
    }
    for (std::size_t dim = 0; dim < to_.size(); ++dim) {
      const bool still = !to_[dim].blocked() || spans_along(false, dim) == 0;
      if (still) start.to_offset += offset_of(to_[dim], region_.to_start[dim]);
    }
    std::vector<Piece> pieces{start};
    for (const Span& span : region_.spans) {
      std::vector<Piece> next;
      for (const Piece& own : pieces_of(span)) {
        for (const Piece& before : pieces) {
          Piece joined = before;
          joined.from_offset += own.from_offset;
          joined.to_offset += own.to_offset;
          joined.loops.insert(joined.loops.end(), own.loops.begin(), own.loops.end());
          next.push_back(std::move(joined));
        }
      }
      pieces = std::move(next);
      if (pieces.size() > kMaxPieces) {
        throw RegionCopy::Unsplittable{
            fmt::format("blocks that cut it into over {} pieces", kMaxPieces)};
      }
    }
    return pieces;
  }

 private:
  static constexpr std::size_t kMaxPieces = 512;

  int spans_along(bool source, std::size_t dim) const {
    return static_cast<int>(std::ranges::count_if(region_.spans, [&](const Span& span) {
      return (source ? span.from_dim : span.to_dim) == static_cast<int>(dim);
    }));
  }

  /// Along a blocked dim there may be one span, of single steps on both sides.
  void check() const {
    for (const Span& span : region_.spans) {
      const bool from_blocked = span.from_dim >= 0 && side(true, span.from_dim).blocked();
      const bool to_blocked = span.to_dim >= 0 && side(false, span.to_dim).blocked();
      if (!from_blocked && !to_blocked) continue;
      const bool single =
          (span.from_dim < 0 || span.from_step == 1) && (span.to_dim < 0 || span.to_step == 1);
      if (!single) throw RegionCopy::Unsplittable{"steps other than 1 along a blocked dim"};
      const bool alone =
          (!from_blocked || spans_along(true, static_cast<std::size_t>(span.from_dim)) == 1) &&
          (!to_blocked || spans_along(false, static_cast<std::size_t>(span.to_dim)) == 1);
      if (!alone) throw RegionCopy::Unsplittable{"several loops along a blocked dim"};
    }
  }

  const SideDim& side(bool source, int dim) const {
    return (source ? from_ : to_)[static_cast<std::size_t>(dim)];
  }

  std::vector<Piece> pieces_of(const Span& span) const {
    const SideDim* from =
        span.from_dim < 0 ? nullptr : &from_[static_cast<std::size_t>(span.from_dim)];
    const SideDim* to = span.to_dim < 0 ? nullptr : &to_[static_cast<std::size_t>(span.to_dim)];
    const bool from_blocked = from != nullptr && from->blocked();
    const bool to_blocked = to != nullptr && to->blocked();
    if (!from_blocked && !to_blocked) {
      return {{0,
               0,
               {{span.size, from == nullptr ? 0 : from->loops[0].stride * span.from_step,
                 to == nullptr ? 0 : to->loops[0].stride * span.to_step}}}};
    }
    const std::int64_t from_index =
        from == nullptr ? 0 : region_.from_start[static_cast<std::size_t>(span.from_dim)];
    const std::int64_t to_index =
        to == nullptr ? 0 : region_.to_start[static_cast<std::size_t>(span.to_dim)];
    // An unblocked side's start is in the first piece already: it counts from there.
    std::vector<Piece> pieces = cut_at_blocks(span, from, to, from_index, to_index);
    for (Piece& piece : pieces) {
      if (from != nullptr && !from_blocked) piece.from_offset -= offset_of(*from, from_index);
      if (to != nullptr && !to_blocked) piece.to_offset -= offset_of(*to, to_index);
    }
    return pieces;
  }

  const Region& region_;
  std::vector<SideDim> from_;
  std::vector<SideDim> to_;
};

}  // namespace

Region Region::whole(const Shape& shape) {
  Region region;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    region.spans.push_back({shape[dim], dim, 1, dim, 1});
    region.from_start.push_back(0);
    region.to_start.push_back(0);
  }
  return region;
}

RegionCopy::RegionCopy(const OperandType& from, const OperandType& to, const Region& region) {
  const std::int64_t bytes = size_of(to.dtype);
  for (Piece& piece : Splitter(from, to, region).split()) {
    parts_.push_back({piece.from_offset * bytes, piece.to_offset * bytes,
                      StridedCopy(std::move(piece.loops), bytes)});
  }
}

int RegionCopy::threads(int device_threads) const {
  int most = 1;
  for (const Part& part : parts_) {
    most = std::max(most, part.copy.threads(device_threads));
  }
  return most;
}

void RegionCopy::run(const std::byte* from, std::byte* to, int threads) const {
  for (const Part& part : parts_) {
    part.copy.run(from + part.from_offset, to + part.to_offset, threads);
  }
}

}  // namespace tilemesh::cpu::highway
