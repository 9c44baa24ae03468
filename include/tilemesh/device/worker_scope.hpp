#pragma once

namespace tilemesh::detail {

/// True while the calling thread acts for a device: it must not wait for events then, since what it
/// waits for may be its own work.
bool on_worker_thread();

/// Marks the calling thread as acting for a device as long as it lives. Scopes nest.
class WorkerScope {
 public:
  WorkerScope();
  ~WorkerScope();
  WorkerScope(const WorkerScope&) = delete;
  WorkerScope& operator=(const WorkerScope&) = delete;
};

}  // namespace tilemesh::detail
