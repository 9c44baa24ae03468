#include "tilemesh/device/host_memory.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"
#include "tilemesh/device/device.hpp"

namespace tilemesh::detail {

namespace {

void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (bytes > 0 && to != from) {
    std::memmove(to, from, static_cast<std::size_t>(bytes));
  }
}

void copy_rows(std::byte* to, std::int64_t to_pitch, const std::byte* from, std::int64_t from_pitch,
               const TransferRegion& region) {
  if (to_pitch == region.row_bytes && from_pitch == region.row_bytes) {
    copy_bytes(to, from, region.row_bytes * region.rows);
    return;
  }
  for (std::int64_t row = 0; row < region.rows; ++row) {
    copy_bytes(to + row * to_pitch, from + row * from_pitch, region.row_bytes);
  }
}

}  // namespace

std::int64_t extent_bytes(const TransferRegion& region, std::int64_t pitch_bytes) {
  if (region.rows <= 0 || region.row_bytes <= 0) {
    return 0;
  }
  return checked_add(checked_mul(region.rows - 1, pitch_bytes), region.row_bytes);
}

void HostMemory::set_arena(Space space, std::byte* base, std::int64_t bytes) {
  arenas_.at(static_cast<std::size_t>(space)) = {base, bytes};
}

std::byte* HostMemory::at(const DeviceAddress& address, std::int64_t bytes) const {
  const Arena& range = arena(address.space);
  if (range.base == nullptr || address.offset < 0 || bytes < 0 || bytes > range.bytes ||
      address.offset > range.bytes - bytes) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} bytes at offset {} are outside of the arena {} of {} bytes", bytes,
                            address.offset, to_string(address.space), range.bytes));
  }
  return range.base + address.offset;
}

void HostMemory::write(const WriteCommand& command) const {
  const TransferRegion& region = command.region;
  std::byte* const to = at(command.device, extent_bytes(region, region.device_pitch_bytes));
  copy_rows(to, region.device_pitch_bytes, command.host, region.host_pitch_bytes, region);
}

void HostMemory::read(const ReadCommand& command) const {
  const TransferRegion& region = command.region;
  const std::byte* const from = at(command.device, extent_bytes(region, region.device_pitch_bytes));
  copy_rows(command.host, region.host_pitch_bytes, from, region.device_pitch_bytes, region);
}

void HostMemory::fill(const FillCommand& command) const {
  std::byte* const to = at(command.device, command.bytes);
  const auto size = static_cast<std::int64_t>(command.pattern.size());
  TILEMESH_CHECK(size >= 1 && size <= 16, "a pattern has 1 to 16 bytes");
  if (size == 1) {
    std::memset(to, std::to_integer<int>(command.pattern[0]),
                static_cast<std::size_t>(command.bytes));
    return;
  }
  // Each copy doubles what is there; a multiple of the pattern stays one.
  std::int64_t done = std::min(size, command.bytes);
  copy_bytes(to, command.pattern.data(), done);
  while (done < command.bytes) {
    const std::int64_t more = std::min(done, command.bytes - done);
    std::memcpy(to + done, to, static_cast<std::size_t>(more));
    done += more;
  }
}

void HostMemory::copy(const CopyCommand& command) const {
  std::byte* const to = at(command.target, command.bytes);
  if (command.source_device == nullptr) {
    copy_bytes(to, at(command.source, command.bytes), command.bytes);
    return;
  }
  const DeviceInfo& info = command.source_device->info();
  const std::int64_t bytes = command.source.space == Space::l1 ? info.l1_bytes : info.dram_bytes;
  HostMemory peer;
  peer.set_arena(command.source.space, command.source_device->map(command.source.space), bytes);
  copy_bytes(to, peer.at(command.source, command.bytes), command.bytes);
}

void HostMemory::run(const KernelCommand& command) const {
  const DeviceKernel& kernel = *command.kernel;
  const KernelBinding& binding = *command.binding;
  if (!kernel.function) {
    throw Error(ErrorCode::unsupported,
                fmt::format("kernel \"{}\" has no function for the host's processor: give it one",
                            kernel.name));
  }
  // Few buffers don't reach the heap.
  std::array<std::span<std::byte>, 8> few;
  std::vector<std::span<std::byte>> many(
      binding.buffers.size() > few.size() ? binding.buffers.size() : 0);
  const std::span<std::span<std::byte>> buffers =
      many.empty() ? std::span(few).first(binding.buffers.size()) : std::span(many);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const KernelBuffer& buffer = binding.buffers[i];
    buffers[i] = {at(buffer.address, buffer.bytes), static_cast<std::size_t>(buffer.bytes)};
  }
  KernelCall call;
  call.buffers = buffers;
  call.arguments = binding.arguments;
  call.device = binding.device;
  kernel.function(call);
}

}  // namespace tilemesh::detail
