#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <source_location>
#include <string>

#include "tilemesh/mesh/mesh_buffer.hpp"

namespace tilemesh::detail {

/// What a buffer shares with its views: whether it is still allocated, and if not, where it was
/// freed. The range returns to the ledger when the buffer is freed and no reservation is held.
class BufferLife : public std::enable_shared_from_this<BufferLife> {
 public:
  BufferLife(const Mesh& mesh, Space space, const ByteRange& range,
             const MeshBufferOptions& options, std::uint64_t generation);

  bool is_allocated() const { return allocated_.load(std::memory_order_acquire); }
  /// Throws `deallocated` with label and place.
  [[noreturn]] void throw_freed() const;
  DeviceAddress address() const {
    if (!is_allocated()) throw_freed();
    return {space_, range_.offset};
  }
  Space space() const { return space_; }
  const std::string& label() const { return label_; }
  std::uint64_t generation() const { return generation_; }

  /// Frees; false if it was freed before. No place: it ended with its owner.
  bool end(const std::optional<std::source_location>& where) noexcept;
  std::shared_ptr<const void> reserve();

 private:
  void let_go() noexcept;

  Mesh mesh_;
  Space space_;
  ByteRange range_;
  std::string label_;
  bool held_by_commands_;
  std::uint64_t generation_;

  std::optional<std::source_location> freed_at_;  // set before allocated_ turns
  std::atomic<bool> allocated_ = true;
  std::atomic<int> holders_ = 1;  // the owner and the reservations
};

}  // namespace tilemesh::detail
