#include "mesh/transfer_checks.hpp"

#include <limits>

#include <fmt/format.h>

#include "tilemesh/device/host_memory.hpp"

namespace tilemesh::detail {

void refuse(const MeshBufferView& buffer, std::string_view what, const std::string& text) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} of buffer \"{}\": {}", what, buffer.label(), text));
}

void check_rows(const MeshBufferView& buffer, const TransferRegion& region, bool reads,
                std::string_view what) {
  if (region.row_bytes < 0 || region.rows < 0) {
    refuse(
        buffer, what,
        fmt::format("{} rows of {} bytes: neither can be negative", region.rows, region.row_bytes));
  }
  if (region.rows > 1 && (region.device_pitch_bytes < region.row_bytes ||
                          region.host_pitch_bytes < (reads ? region.row_bytes : 0))) {
    refuse(buffer, what,
           fmt::format("rows of {} bytes overlap at pitches {} (host) and {} (device)",
                       region.row_bytes, region.host_pitch_bytes, region.device_pitch_bytes));
  }
}

void check_device_side(const MeshBufferView& buffer, const TransferRegion& region,
                       std::int64_t offset, std::string_view what) {
  const std::int64_t capacity = buffer.bytes_per_device();
  const bool fits_dense = region.row_bytes == 0 || region.rows <= capacity / region.row_bytes;
  if (!fits_dense || (region.rows > 1 && region.device_pitch_bytes > capacity)) {
    refuse(buffer, what,
           fmt::format("{} rows of {} bytes at a pitch of {} don't fit its {} bytes per device",
                       region.rows, region.row_bytes, region.device_pitch_bytes, capacity));
  }
  const std::int64_t extent = extent_bytes(region, region.device_pitch_bytes);
  if (offset < 0 || extent > capacity || offset > capacity - extent) {
    refuse(buffer, what,
           fmt::format("{} bytes at offset {} don't fit its {} bytes per device", extent, offset,
                       capacity));
  }
}

void check_host_side(const MeshBufferView& buffer, const std::byte* host, std::int64_t host_bytes,
                     const TransferRegion& region, std::string_view what) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const bool beyond = region.rows > 1 && region.host_pitch_bytes > kMost / region.rows;
  const std::int64_t extent = beyond ? kMost : extent_bytes(region, region.host_pitch_bytes);
  if (extent > host_bytes) {
    refuse(buffer, what,
           fmt::format("{} rows of {} bytes at a pitch of {} need {} bytes of host memory, and it "
                       "has {}: give more, or a smaller region",
                       region.rows, region.row_bytes, region.host_pitch_bytes, extent, host_bytes));
  }
  if (extent > 0 && host == nullptr) {
    refuse(buffer, what, "the host memory is null");
  }
}

}  // namespace tilemesh::detail
