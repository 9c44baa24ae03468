#pragma once

#include <cstdint>
#include <memory>
#include <source_location>
#include <string>

#include "tilemesh/memory/lockstep_allocator.hpp"
#include "tilemesh/mesh/mesh.hpp"

namespace tilemesh {

namespace detail {
class BufferLife;
}  // namespace detail

struct MeshBufferOptions {
  std::int64_t bytes_per_device = 0;
  Space space = Space::dram;
  std::string label = "buffer";  ///< what the ledger calls it
  std::int64_t alignment = 64;
  bool held_by_commands = false;  ///< whoever enqueues keeps the buffer alive until its commands
                                  ///< have ended, so that its end returns the range at once
  bool temporary = false;         ///< grows from the top of the arena, away from what stays
};

/// Bytes of a buffer on some of its devices. It shares the buffer's life and never owns: once the
/// buffer is freed, every use throws `deallocated` with the label and the place where it was freed,
/// whoever has the bytes by then. A value; cheap to copy. Queues take it wherever they take a
/// buffer.
class MeshBufferView {
 public:
  /// `bytes` from `offset` on, of every device. Throws invalid_argument for what is outside.
  MeshBufferView slice(std::int64_t offset, std::int64_t bytes) const;
  /// The same bytes on the devices of a range of this view's mesh only. Throws invalid_argument for
  /// a range outside of it.
  MeshBufferView at(const MeshRange& range) const;
  /// The same bytes as another view of the devices sees them. Throws invalid_argument unless all of
  /// its devices hold the buffer.
  MeshBufferView on(const Mesh& mesh) const;

  bool is_allocated() const;
  /// Equal on all its devices. Throws `deallocated` if the buffer was freed.
  DeviceAddress address() const;
  std::int64_t bytes_per_device() const { return bytes_; }
  Space space() const;
  const Mesh& mesh() const { return mesh_; }
  const std::string& label() const;
  /// Tells buffers of one mesh apart that have the same label, or the same address one after the
  /// other: counts allocations from 1. 0 for a buffer that was moved from.
  std::uint64_t generation() const;

  /// Keeps the range from being handed out again as long as it is held, also when the buffer is
  /// freed: for what replays commands. Throws `deallocated`.
  std::shared_ptr<const void> reserve() const;

 protected:
  MeshBufferView(Mesh mesh, std::shared_ptr<detail::BufferLife> life, std::int64_t offset,
                 std::int64_t bytes);
  detail::BufferLife& checked() const;

  Mesh mesh_;
  std::shared_ptr<detail::BufferLife> life_;  // null if moved from
  std::int64_t offset_ = 0;
  std::int64_t bytes_ = 0;
};

/// The owner of one lock-step range: the same offset on every device of its mesh. Bytes only, no
/// shapes. Move-only; frees its range when destroyed. Freeing is stream-ordered: the range returns
/// when the commands enqueued so far have ended. Not thread-safe itself; its bytes are ordered by
/// the queues that use them. As a view it is all of itself.
class MeshBuffer : public MeshBufferView {
 public:
  /// On no space: waits for what is pending (at most MeshOptions::shortage_timeout), retries once,
  /// then throws out_of_memory with what was asked, what is free, the largest hole and the largest
  /// holders.
  static MeshBuffer allocate(const Mesh& mesh, const MeshBufferOptions& options);

  MeshBuffer(MeshBuffer&&) noexcept;
  MeshBuffer& operator=(MeshBuffer&&) noexcept;
  MeshBuffer(const MeshBuffer&) = delete;
  MeshBuffer& operator=(const MeshBuffer&) = delete;
  ~MeshBuffer();

  /// Throws `deallocated` if it was freed before, with where that was.
  void deallocate(std::source_location where = std::source_location::current());

 private:
  using MeshBufferView::MeshBufferView;
  void release() noexcept;
};

}  // namespace tilemesh
