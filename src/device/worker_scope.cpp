#include "tilemesh/device/worker_scope.hpp"

namespace tilemesh::detail {

namespace {
thread_local int scopes = 0;
}  // namespace

bool on_worker_thread() {
  return scopes > 0;
}

WorkerScope::WorkerScope() {
  ++scopes;
}

WorkerScope::~WorkerScope() {
  --scopes;
}

}  // namespace tilemesh::detail
