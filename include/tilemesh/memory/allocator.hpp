#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tilemesh/types/tensor_spec.hpp"

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

/// What an allocator is asked for.
struct AllocationRequest {
  std::int64_t bytes = 0;
  std::int64_t alignment = 64;
  Lifetime lifetime = Lifetime::lasting;
  const std::vector<int>* devices = nullptr;  ///< sorted, unique; null: all
};

/// Hands out ranges at one offset on a set of devices: what the ledger asks. The real one is
/// LockstepAllocator; adaptors wrap another (allocator_adaptors.hpp). Not thread-safe.
class Allocator {
 public:
  Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;
  virtual ~Allocator() = default;

  /// Nullopt if there is no room.
  virtual std::optional<ByteRange> take(const AllocationRequest& request) = 0;
  /// Gives back what take returned for these devices (null: all).
  virtual void give(const std::vector<int>* devices, const ByteRange& range) = 0;

  virtual int device_count() const = 0;
  virtual std::int64_t arena_bytes() const = 0;
  virtual std::int64_t used_bytes(int device) const = 0;
  virtual std::int64_t peak_bytes(int device) const = 0;
  /// The largest range that is free on all of these devices (null: all) at one offset.
  virtual std::int64_t largest_hole_bytes(const std::vector<int>* devices) const = 0;

 protected:
  Allocator(Allocator&&) = default;
  Allocator& operator=(Allocator&&) = default;
};

/// Wraps the allocator of a space: the seam for limits, logs and faults.
using AllocatorDecorator =
    std::function<std::unique_ptr<Allocator>(Space space, std::unique_ptr<Allocator> inner)>;

}  // namespace tilemesh
