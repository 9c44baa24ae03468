#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "tilemesh/memory/lockstep_allocator.hpp"

#include "hole_index.hpp"

namespace tilemesh::detail {

/// Where `bytes` would lie in `hole`: as low as the alignment (a power of two) allows for lasting
/// ranges, as high for temporary ones. Nullopt if they don't fit.
std::optional<std::int64_t> place_in(const ByteRange& hole, std::int64_t bytes,
                                     std::int64_t alignment, Lifetime lifetime);

constexpr std::int64_t kAnywhere = std::numeric_limits<std::int64_t>::max();

/// Best fit over holes in order of offset that begin below `below`, by looking at each: the rule
/// that FreeList::find follows faster.
std::optional<std::int64_t> best_fit(std::span<const ByteRange> holes, std::int64_t bytes,
                                     std::int64_t alignment, Lifetime lifetime,
                                     std::int64_t below = kAnywhere);

/// The holes of an arena; neighbours are always joined. Keeps the room of its indexes, so that it
/// stops allocating once it has seen its greatest number of holes.
class FreeList {
 public:
  /// One hole: the whole arena.
  explicit FreeList(std::int64_t arena_bytes);

  std::optional<std::int64_t> find(std::int64_t bytes, std::int64_t alignment, Lifetime lifetime,
                                   std::int64_t below = kAnywhere) const;
  /// Cuts a range out of the hole that holds it.
  void take(const ByteRange& range);
  /// Gives a range back and joins it to its neighbours. The range must overlap no hole.
  void give(const ByteRange& range);

  struct LowerOffset {
    bool operator()(const ByteRange& a, const ByteRange& b) const { return a.offset < b.offset; }
  };
  /// In order of offset.
  const HoleIndex<LowerOffset>& holes() const { return by_offset_; }
  std::int64_t free_bytes() const { return free_bytes_; }
  std::int64_t largest_bytes() const { return by_size_.empty() ? 0 : by_size_.back().bytes; }

  /// Quick to say no: lists with the same holes have the same fingerprint.
  friend bool operator==(const FreeList& a, const FreeList& b) {
    return a.fingerprint_ == b.fingerprint_ && a.by_offset_ == b.by_offset_;
  }

 private:
  struct Smaller {  // then at the lower offset
    bool operator()(const ByteRange& a, const ByteRange& b) const {
      return static_cast<bool>(static_cast<int>(a.bytes < b.bytes) |
                               (static_cast<int>(a.bytes == b.bytes) &
                                static_cast<int>(a.offset < b.offset)));  // without a branch
    }
  };
  using ByOffset = HoleIndex<LowerOffset>;
  using BySize = HoleIndex<Smaller>;

  void resize_hole(ByOffset::Iterator hole, const ByteRange& changed);
  void insert_hole(const ByteRange& hole);
  void erase_hole(ByOffset::Iterator hole);

  ByOffset by_offset_;
  BySize by_size_;
  std::int64_t free_bytes_ = 0;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace tilemesh::detail
