#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tilemesh {

/// A range of memory that is needed from step `first` to step `last`, both included.
struct ValueLifetime {
  std::int64_t bytes = 0;
  std::size_t first = 0;
  std::size_t last = 0;
};

struct WorkspacePlan {
  std::vector<std::int64_t> offsets;  ///< one a lifetime, multiples of 64
  std::int64_t bytes = 0;             ///< of the whole workspace, a multiple of 64
};

/// Lays lifetimes into one workspace so that those that overlap in time don't overlap in memory:
/// the largest first, each into the tightest gap among those already placed that live with it.
WorkspacePlan plan_memory(std::span<const ValueLifetime> lifetimes);

}  // namespace tilemesh
