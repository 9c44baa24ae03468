#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tilemesh/memory/allocator.hpp"

namespace tilemesh {

/// Hands out ranges at the same offset on every device of a set, as pure arithmetic: it touches no
/// memory. The truth is per device; devices in equal state form a class that shares one free list,
/// so that an allocation on all devices costs the same for one as for many. A set that cuts a class
/// splits it; classes that become equal again are merged.
///
/// Best fit: the smallest hole that is large enough; among equals the lowest for lasting ranges,
/// the highest for temporary ones. For lasting ranges holes below all temporary ranges come first,
/// so that these leave one hole when they go. Not thread-safe.
class LockstepAllocator final : public Allocator {
 public:
  /// Device numbers 0 to device_count-1; each has an arena of `arena_bytes`.
  LockstepAllocator(int device_count, std::int64_t arena_bytes);
  ~LockstepAllocator() override;
  LockstepAllocator(LockstepAllocator&&) noexcept;
  LockstepAllocator& operator=(LockstepAllocator&&) noexcept;

  /// On all devices. `alignment` is a power of two; a size of 0 takes one alignment's worth. The
  /// range has the bytes asked for, rounded up to the alignment or to 64, whichever is less.
  /// Nullopt if no hole is large enough on all of them at one offset. Throws invalid_argument for a
  /// negative size or another alignment.
  std::optional<ByteRange> allocate(std::int64_t bytes, std::int64_t alignment, Lifetime lifetime);
  /// On some devices (sorted, unique).
  std::optional<ByteRange> allocate_on(const std::vector<int>& devices, std::int64_t bytes,
                                       std::int64_t alignment, Lifetime lifetime);
  /// Gives back what allocate returned; TILEMESH_CHECK fails for anything else.
  void free(const ByteRange& range);
  void free_on(const std::vector<int>& devices, const ByteRange& range);

  std::optional<ByteRange> take(const AllocationRequest& request) override;
  void give(const std::vector<int>* devices, const ByteRange& range) override;

  int device_count() const override;
  std::int64_t arena_bytes() const override;
  std::int64_t used_bytes(int device) const override;
  std::int64_t peak_bytes(int device) const override;
  std::int64_t largest_hole_bytes(const std::vector<int>* devices) const override;
  std::int64_t largest_hole_bytes(int device) const;
  /// How many classes of equal state there are.
  int class_count() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tilemesh
