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
  bool is_difference = false;  ///< numbers are changes and are printed with their sign
  /// A paragraph per space: its totals, then a line per holder.
  std::string to_string() const;
};
/// What has changed per space; holders that stayed the same are left out.
MemoryReport operator-(const MemoryReport& after, const MemoryReport& before);

/// What nobody gave back by the time that the devices close, a line per space and holder; empty if
/// that is nothing.
std::string leak_text(const MemoryReport& at_close);

/// "512 bytes", "12 MiB", "1.5 GiB": in the largest unit that is reached, one decimal if needed.
std::string to_bytes_text(std::int64_t bytes);

}  // namespace tilemesh
