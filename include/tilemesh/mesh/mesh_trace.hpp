#pragma once

#include <functional>
#include <memory>

#include "tilemesh/mesh/mesh.hpp"

namespace tilemesh {

namespace detail {
struct TraceState;
}  // namespace detail

/// Commands that were recorded once and are replayed with one call: one command a device, or a few
/// where devices wait for each other in between. A handle; copies share the recording. Thread-safe.
/// It holds its host memory, programs and buffers: a buffer that is freed meanwhile keeps its range
/// until the last handle is gone and its replays have ended, so no later allocation collides.
class MeshTrace {
 public:
  /// Enqueues all of it on queue `queue` of the mesh, behind what that was given before, and
  /// returns at once. On each device the commands run in the order in which they were enqueued,
  /// whatever their queues were. The first that fails ends the replay on its device and whatever
  /// needs it; the event carries its error. Within another capture the replay is recorded.
  Event replay(int queue = 0) const;
  /// Commands over all devices.
  std::int64_t command_count() const;
  /// Times that all devices wait for each other within a replay.
  std::int64_t meeting_count() const;

 private:
  friend MeshTrace capture(const Mesh& mesh, const std::function<void()>& scope);
  MeshTrace(Mesh mesh, std::shared_ptr<const detail::TraceState> state)
      : mesh_(std::move(mesh)), state_(std::move(state)) {}

  Mesh mesh_;
  std::shared_ptr<const detail::TraceState> state_;
};

/// Records what the calling thread enqueues within `scope` on queues of this mesh and of its views;
/// nothing of it runs before the replay. What is enqueued on other meshes or by other threads runs
/// as ever. Events made in the scope complete with the first replay, or fail when the trace goes
/// without one; events from outside that aren't ready are waited for by every replay.
///
/// What can't be captured throws invalid_argument inside the scope: waits, finish(), run(), reads
/// that block, another capture. Whatever leaves the scope as an exception is passed on, and what
/// was recorded is dropped.
MeshTrace capture(const Mesh& mesh, const std::function<void()>& scope);

}  // namespace tilemesh
