#include "free_list.hpp"

#include <algorithm>

#include "tilemesh/base/error.hpp"

namespace tilemesh::detail {
namespace {

/// Mixes a hole into 64 bits; fingerprints are the exclusive or over all holes.
std::uint64_t hash_of(const ByteRange& hole) {
  std::uint64_t h = static_cast<std::uint64_t>(hole.offset) * 0x9e3779b97f4a7c15u;
  h ^= h >> 32;
  h = (h + static_cast<std::uint64_t>(hole.bytes)) * 0xd6e8feb86659fd93u;
  return h ^ (h >> 32);
}

}  // namespace

std::optional<std::int64_t> place_in(const ByteRange& hole, std::int64_t bytes,
                                     std::int64_t alignment, Lifetime lifetime) {
  if (bytes > hole.bytes) return std::nullopt;
  const std::int64_t mask = alignment - 1;
  const std::int64_t slack = hole.bytes - bytes;
  if (lifetime == Lifetime::lasting) {
    const std::int64_t skipped = -hole.offset & mask;
    if (skipped > slack) return std::nullopt;
    return hole.offset + skipped;
  }
  const std::int64_t highest = hole.offset + slack;
  if ((highest & mask) > slack) return std::nullopt;
  return highest & ~mask;
}

std::optional<std::int64_t> best_fit(std::span<const ByteRange> holes, std::int64_t bytes,
                                     std::int64_t alignment, Lifetime lifetime,
                                     std::int64_t below) {
  std::optional<std::int64_t> best;
  std::int64_t best_bytes = 0;
  for (const ByteRange& hole : holes) {
    if (hole.offset >= below) break;
    const bool better = !best || hole.bytes < best_bytes ||
                        (hole.bytes == best_bytes && lifetime == Lifetime::temporary);
    if (!better) continue;
    if (const auto offset = place_in(hole, bytes, alignment, lifetime)) {
      best = offset;
      best_bytes = hole.bytes;
    }
  }
  return best;
}

FreeList::FreeList(std::int64_t arena_bytes) {
  if (arena_bytes > 0) insert_hole({0, arena_bytes});
}

std::optional<std::int64_t> FreeList::find(std::int64_t bytes, std::int64_t alignment,
                                           Lifetime lifetime, std::int64_t below) const {
  for (auto hole = by_size_.lower_bound({0, bytes}); hole != by_size_.end(); ++hole) {
    if (hole->offset >= below) continue;
    const auto offset = place_in(*hole, bytes, alignment, lifetime);
    if (!offset) continue;
    if (lifetime == Lifetime::lasting) return offset;
    // Of the holes of this size the last one that fits; this one does.
    auto last = by_size_.lower_bound({0, hole->bytes + 1});
    while (true) {
      --last;
      const auto high = place_in(*last, bytes, alignment, lifetime);
      if (high && last->offset < below) return high;
    }
  }
  return std::nullopt;
}

void FreeList::take(const ByteRange& range) {
  auto hole = by_offset_.lower_bound({range.offset + 1, 0});
  TILEMESH_CHECK(hole != by_offset_.begin(), "a range is taken where no hole is");
  --hole;
  const ByteRange whole = *hole;
  const std::int64_t before = range.offset - whole.offset;
  const std::int64_t after = whole.bytes - before - range.bytes;
  TILEMESH_CHECK(after >= 0, "a range is taken where no hole is");
  if (before == 0 && after == 0) {
    erase_hole(hole);
  } else if (before == 0) {
    resize_hole(hole, {range.offset + range.bytes, after});
  } else {
    resize_hole(hole, {whole.offset, before});
    if (after > 0) insert_hole({range.offset + range.bytes, after});
  }
}

void FreeList::give(const ByteRange& range) {
  const auto next = by_offset_.lower_bound({range.offset + 1, 0});
  const bool has_previous = next != by_offset_.begin();
  const auto previous = has_previous ? std::prev(next) : next;
  const std::int64_t end = range.offset + range.bytes;
  TILEMESH_CHECK((!has_previous || previous->offset + previous->bytes <= range.offset) &&
                     (next == by_offset_.end() || end <= next->offset),
                 "a range that is free is given back again");
  const bool joins_previous = has_previous && previous->offset + previous->bytes == range.offset;
  const bool joins_next = next != by_offset_.end() && next->offset == end;
  if (joins_previous && joins_next) {
    const ByteRange joined{previous->offset, previous->bytes + range.bytes + next->bytes};
    resize_hole(previous, joined);  // in place, so that `next` stays what it is
    erase_hole(next);
  } else if (joins_previous) {
    resize_hole(previous, {previous->offset, previous->bytes + range.bytes});
  } else if (joins_next) {
    resize_hole(next, {range.offset, range.bytes + next->bytes});
  } else {
    insert_hole(range);
  }
}

void FreeList::resize_hole(ByOffset::Iterator hole, const ByteRange& changed) {
  fingerprint_ ^= hash_of(*hole) ^ hash_of(changed);
  free_bytes_ += changed.bytes - hole->bytes;
  by_size_.erase(by_size_.lower_bound(*hole));
  by_size_.insert(changed);
  by_offset_.replace(hole, changed);
}

void FreeList::insert_hole(const ByteRange& hole) {
  fingerprint_ ^= hash_of(hole);
  free_bytes_ += hole.bytes;
  by_size_.insert(hole);
  by_offset_.insert(hole);
}

void FreeList::erase_hole(ByOffset::Iterator hole) {
  fingerprint_ ^= hash_of(*hole);
  free_bytes_ -= hole->bytes;
  by_size_.erase(by_size_.lower_bound(*hole));
  by_offset_.erase(hole);
}

}  // namespace tilemesh::detail
