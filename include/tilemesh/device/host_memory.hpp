#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tilemesh/device/command.hpp"

namespace tilemesh::detail {

/// The arenas of a device whose memory the host can address, and what the data commands do there.
/// A view: the arenas outlive it. Throws invalid_argument for an address outside of its arena.
class HostMemory {
 public:
  void set_arena(Space space, std::byte* base, std::int64_t bytes);
  /// Null for a space that the device hasn't got.
  std::byte* base(Space space) const { return arena(space).base; }
  std::int64_t bytes(Space space) const { return arena(space).bytes; }
  /// The first of `bytes` bytes at an address.
  std::byte* at(const DeviceAddress& address, std::int64_t bytes) const;

  void write(const WriteCommand& command) const;
  void read(const ReadCommand& command) const;
  void fill(const FillCommand& command) const;
  void copy(const CopyCommand& command) const;
  /// Calls the kernel's function; throws unsupported if it has none.
  void run(const KernelCommand& command) const;

 private:
  struct Arena {
    std::byte* base = nullptr;
    std::int64_t bytes = 0;
  };
  const Arena& arena(Space space) const { return arenas_[static_cast<std::size_t>(space)]; }

  std::array<Arena, 3> arenas_{};  // by Space; host stays empty
};

/// Bytes from the first to behind the last of a region on one side.
std::int64_t extent_bytes(const TransferRegion& region, std::int64_t pitch_bytes);

}  // namespace tilemesh::detail
