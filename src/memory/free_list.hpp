#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tilemesh/memory/lockstep_allocator.hpp"

namespace tilemesh::detail {

/// Where `bytes` would lie in `hole`: as low as the alignment (a power of two) allows for lasting
/// ranges, as high for temporary ones. Nullopt if they don't fit.
std::optional<std::int64_t> place_in(const ByteRange& hole, std::int64_t bytes,
                                     std::int64_t alignment, Lifetime lifetime);

/// Best fit over holes in order of offset, by looking at each: the rule that FreeList::find follows
/// faster.
std::optional<std::int64_t> best_fit(std::span<const ByteRange> holes, std::int64_t bytes,
                                     std::int64_t alignment, Lifetime lifetime);

/// The holes of an arena; neighbours are always joined. Keeps the room of its arrays, so that it
/// stops allocating once it has seen its greatest number of holes.
class FreeList {
 public:
  /// One hole: the whole arena.
  explicit FreeList(std::int64_t arena_bytes);

  std::optional<std::int64_t> find(std::int64_t bytes, std::int64_t alignment,
                                   Lifetime lifetime) const;
  /// Cuts a range out of the hole that holds it.
  void take(const ByteRange& range);
  /// Gives a range back and joins it to its neighbours. The range must overlap no hole.
  void give(const ByteRange& range);

  /// In order of offset.
  std::span<const ByteRange> holes() const { return by_offset_; }
  std::int64_t free_bytes() const { return free_bytes_; }
  std::int64_t largest_bytes() const { return by_size_.empty() ? 0 : by_size_.back().bytes; }

  /// Quick to say no: lists with the same holes have the same fingerprint.
  friend bool operator==(const FreeList& a, const FreeList& b) {
    return a.fingerprint_ == b.fingerprint_ && a.by_offset_ == b.by_offset_;
  }

 private:
  using Holes = std::vector<ByteRange>;

  void resize_hole(Holes::iterator hole, const ByteRange& changed);
  void insert_hole(Holes::iterator before, const ByteRange& hole);
  void erase_hole(Holes::iterator hole);
  Holes::iterator find_by_size(const ByteRange& hole);

  Holes by_offset_;
  Holes by_size_;  // then by offset
  std::int64_t free_bytes_ = 0;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace tilemesh::detail
