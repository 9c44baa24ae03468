#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilemesh/types/tensor_spec.hpp"

namespace tilemesh {

struct MemoryHolder {
  std::string label;
  std::int64_t bytes = 0;  ///< per device; in a difference it may be negative
  std::int64_t count = 0;  ///< allocations of that label
};

/// One memory space of the mesh's devices (lock-step: the same on each).
struct SpaceReport {
  Space space = Space::dram;
  std::int64_t total_bytes = 0;
  std::int64_t used_bytes = 0;
  std::int64_t free_bytes = 0;
  std::int64_t largest_hole_bytes = 0;
  std::int64_t peak_bytes = 0;
  std::vector<MemoryHolder> holders;  ///< by label, largest first
};

/// Who holds what. A value; the difference of two says what an interval has added and freed.
struct MemoryReport {
  std::vector<SpaceReport> spaces;
  std::string to_string() const;
};
MemoryReport operator-(const MemoryReport& after, const MemoryReport& before);

}  // namespace tilemesh
