#pragma once

#include <string>
#include <string_view>

#include "tilemesh/mesh/mesh_queue.hpp"

namespace tilemesh::detail {

inline std::string_view or_else(std::string_view label, std::string_view otherwise) {
  return label.empty() ? otherwise : label;
}

inline DeviceAddress plus(DeviceAddress address, std::int64_t bytes) {
  address.offset += bytes;
  return address;
}

// What may be asked of a buffer and of host memory. `what` names the command in the message.

/// Throws invalid_argument.
[[noreturn]] void refuse(const MeshBufferView& buffer, std::string_view what,
                         const std::string& text);
/// Rows must not overlap where they are written.
void check_rows(const MeshBufferView& buffer, const TransferRegion& region, bool reads,
                std::string_view what);
void check_device_side(const MeshBufferView& buffer, const TransferRegion& region,
                       std::int64_t offset, std::string_view what);
void check_host_side(const MeshBufferView& buffer, const std::byte* host, std::int64_t host_bytes,
                     const TransferRegion& region, std::string_view what);

}  // namespace tilemesh::detail
