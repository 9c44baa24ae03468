#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tilemesh/memory/lockstep_allocator.hpp"
#include "tilemesh/mesh/mesh.hpp"

namespace tilemesh {

struct MeshBufferOptions {
  std::int64_t bytes_per_device = 0;
  Space space = Space::dram;
  std::string label = "buffer";  ///< what the ledger calls it
  std::int64_t alignment = 64;
  bool held_by_commands = false;  ///< whoever enqueues keeps the buffer alive until its commands
                                  ///< have ended, so that its end returns the range at once
  bool temporary = false;         ///< grows from the top of the arena, away from what stays
};

/// The owner of one lock-step range: the same offset on every device of its mesh. Bytes only, no
/// shapes. Move-only; frees its range when destroyed. Freeing is stream-ordered: the range returns
/// when the commands enqueued so far have ended. Not thread-safe itself; its bytes are ordered by
/// the queues that use them.
class MeshBuffer {
 public:
  /// On no space: drains what is pending, retries once, then throws out_of_memory with what was
  /// asked, what is free, the largest hole and the largest holders.
  static MeshBuffer allocate(const Mesh& mesh, const MeshBufferOptions& options);

  MeshBuffer(MeshBuffer&&) noexcept;
  MeshBuffer& operator=(MeshBuffer&&) noexcept;
  MeshBuffer(const MeshBuffer&) = delete;
  MeshBuffer& operator=(const MeshBuffer&) = delete;
  ~MeshBuffer();

  bool is_allocated() const { return allocated_; }
  /// Throws `deallocated` if it was freed before.
  void deallocate();
  /// Equal on all its devices. Throws `deallocated`, naming the label, when it has been freed.
  DeviceAddress address() const;
  std::int64_t bytes_per_device() const { return bytes_; }
  Space space() const { return address_.space; }
  const Mesh& mesh() const { return mesh_; }
  const std::string& label() const { return label_; }

 private:
  MeshBuffer(Mesh mesh, Space space, ByteRange range, std::int64_t bytes, std::string label);
  void release() noexcept;

  Mesh mesh_;
  DeviceAddress address_;
  std::int64_t bytes_ = 0;
  std::int64_t reserved_bytes_ = 0;  // what the ledger gave for them
  std::string label_;
  bool held_by_commands_ = false;
  bool allocated_ = false;
};

}  // namespace tilemesh
