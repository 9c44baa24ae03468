#include "tilemesh/mesh/mesh_trace.hpp"

#include "tilemesh/mesh/mesh_queue.hpp"

#include "mesh/trace_recorder.hpp"

namespace tilemesh {

MeshTrace capture(const Mesh& mesh, const std::function<void()>& scope) {
  detail::refuse_in_capture("a capture");
  detail::TraceRecorder recorder(mesh.shared_core());
  {
    const detail::CaptureScope recording(&recorder);
    scope();
  }
  return {mesh, recorder.finish()};
}

Event MeshTrace::replay(int queue) const {
  return mesh_.queue(queue).enqueue_trace(state_);
}

std::int64_t MeshTrace::command_count() const {
  std::int64_t count = 0;
  for (const auto& phase : state_->phases) {
    for (const auto& list : phase.lists) {
      count += list == nullptr ? 0 : std::ssize(list->entries);
    }
  }
  return count;
}

std::int64_t MeshTrace::meeting_count() const {
  return std::max<std::int64_t>(std::ssize(state_->phases), 1) - 1;
}

}  // namespace tilemesh
