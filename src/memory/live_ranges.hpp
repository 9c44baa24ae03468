#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tilemesh/memory/lockstep_allocator.hpp"

namespace tilemesh::detail {

/// The ranges that were handed out, each with the number of its device set and its lifetime. A hash
/// table with open addressing and no deletion marks: it grows only when it holds more than ever
/// before.
class LiveRanges {
 public:
  void insert(std::uint32_t set, const ByteRange& range, Lifetime lifetime);
  /// Its lifetime; nullopt if exactly this range isn't live on exactly this set.
  std::optional<Lifetime> erase(std::uint32_t set, const ByteRange& range);
  std::size_t size() const { return count_; }

 private:
  struct Entry {
    ByteRange range;
    std::uint32_t set = kNone;
    Lifetime lifetime = Lifetime::lasting;
  };
  static constexpr std::uint32_t kNone = 0xffffffff;

  std::size_t home_of(std::uint32_t set, const ByteRange& range) const;
  void place(const Entry& entry);
  void grow();

  std::vector<Entry> entries_;  // a power of two, at most half full
  std::size_t count_ = 0;
};

}  // namespace tilemesh::detail
