#pragma once

#include <cstddef>
#include <cstdint>

namespace tilemesh::detail {

/// A matrix copy that swaps which index is contiguous: target[f][t] = source[t][f], with rows at
/// any distance in bytes. Elements have 1, 2, 4 or 8 bytes and need no alignment.
struct Transpose {
  std::int64_t t_count = 0;     ///< elements of a target row
  std::int64_t f_count = 0;     ///< elements of a source row
  std::int64_t source_row = 0;  ///< bytes from one source row to the next
  std::int64_t target_row = 0;  ///< bytes from one target row to the next
  std::int64_t element_bytes = 0;
  /// Write past the caches: for targets too large to stay in them. Followed by stream_fence().
  bool stream = false;
};
void transpose(const Transpose& job, const std::byte* source, std::byte* target);

/// Copies bytes past the caches where the machine can. Followed by stream_fence().
void stream_copy(std::byte* target, const std::byte* source, std::int64_t bytes);

/// Orders streamed writes before what this thread writes next.
void stream_fence();

/// From this many bytes of target on, reading back from memory costs less than the caches lose.
inline constexpr std::int64_t kStreamBytes = std::int64_t{8} << 20;

/// The smallest count of rows and columns for which transpose beats a plain loop.
constexpr std::int64_t transpose_minimum(std::int64_t element_bytes) {
  return 16 / element_bytes;
}

}  // namespace tilemesh::detail
