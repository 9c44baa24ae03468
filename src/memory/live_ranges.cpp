#include "live_ranges.hpp"

namespace tilemesh::detail {

std::size_t LiveRanges::home_of(std::uint32_t set, const ByteRange& range) const {
  const std::uint64_t h =
      (static_cast<std::uint64_t>(range.offset) + (std::uint64_t{set} << 48)) * 0x9e3779b97f4a7c15u;
  return static_cast<std::size_t>(h >> 20) & (entries_.size() - 1);
}

void LiveRanges::place(const Entry& entry) {
  const std::size_t mask = entries_.size() - 1;
  std::size_t at = home_of(entry.set, entry.range);
  while (entries_[at].set != kNone)
    at = (at + 1) & mask;
  entries_[at] = entry;
}

void LiveRanges::grow() {
  std::vector<Entry> old(entries_.empty() ? 64 : entries_.size() * 2);
  old.swap(entries_);
  for (const Entry& entry : old) {
    if (entry.set != kNone) place(entry);
  }
}

void LiveRanges::insert(std::uint32_t set, const ByteRange& range, Lifetime lifetime) {
  if ((count_ + 1) * 2 > entries_.size()) grow();
  place({range, set, lifetime});
  ++count_;
}

std::optional<Lifetime> LiveRanges::erase(std::uint32_t set, const ByteRange& range) {
  if (count_ == 0) return std::nullopt;
  const std::size_t mask = entries_.size() - 1;
  std::size_t at = home_of(set, range);
  while (entries_[at].set != set || !(entries_[at].range == range)) {
    if (entries_[at].set == kNone) return std::nullopt;
    at = (at + 1) & mask;
  }
  const Lifetime lifetime = entries_[at].lifetime;
  // Closes the gap: what follows moves up unless that would put it before its home.
  for (std::size_t next = (at + 1) & mask; entries_[next].set != kNone; next = (next + 1) & mask) {
    const std::size_t home = home_of(entries_[next].set, entries_[next].range);
    if (((next - home) & mask) >= ((next - at) & mask)) {
      entries_[at] = entries_[next];
      at = next;
    }
  }
  entries_[at].set = kNone;
  --count_;
  return lifetime;
}

}  // namespace tilemesh::detail
