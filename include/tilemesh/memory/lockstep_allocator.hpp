#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tilemesh {

/// A half-open range of bytes in an arena.
struct ByteRange {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

enum class Lifetime : std::uint8_t {
  lasting,    ///< grows from the bottom of the arena
  temporary,  ///< grows from the top
};

/// Hands out ranges at the same offset on every device of a set, as pure arithmetic: it touches no
/// memory. The truth is per device; devices in equal state form a class that shares one free list,
/// so that an allocation on all devices costs the same for one as for many. A set that cuts a class
/// splits it; classes that become equal again are merged.
///
/// Best fit: the smallest hole that is large enough; among equals the lowest for lasting ranges,
/// the highest for temporary ones. Not thread-safe.
class LockstepAllocator {
 public:
  /// Device numbers 0 to device_count-1; each has an arena of `arena_bytes`.
  LockstepAllocator(int device_count, std::int64_t arena_bytes);
  ~LockstepAllocator();
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

  std::int64_t arena_bytes() const;
  std::int64_t used_bytes(int device) const;
  std::int64_t peak_bytes(int device) const;
  std::int64_t largest_hole_bytes(int device) const;
  /// The largest range that is free on all of these devices (sorted, unique) at one offset.
  std::int64_t largest_hole_bytes_on(const std::vector<int>& devices) const;
  int device_count() const;
  /// How many classes of equal state there are.
  int class_count() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tilemesh
