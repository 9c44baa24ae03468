#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace tilemesh::cpu {

/// What a worker carries out: it is scheduled at most once at a time.
class Work {
 public:
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  virtual ~Work() = default;

  virtual void run() = 0;

 private:
  friend class WorkerPool;
  bool scheduled_ = false;  // guarded by the pool
};

struct WorkerPoolOptions {
  int workers = 1;
  std::string name = "tilemesh";       ///< of the threads, as the system shows it
  std::vector<unsigned> processors{};  ///< that they are bound to; empty: none
  int threads_per_worker = 1;          ///< OpenMP threads that a worker's kernels may use
};

/// Threads that take work from one list, first in, first out. A worker without work spins for a
/// millisecond before it sleeps, since waking it costs the waker 30 us and the work 40 us.
class WorkerPool {
 public:
  explicit WorkerPool(const WorkerPoolOptions& options);
  /// Waits for what is being run, and drops what is scheduled. May run on one of its own workers,
  /// which then ends by itself.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Does nothing if it is scheduled already.
  void schedule(std::shared_ptr<Work> work);
  bool is_this_thread() const;

 private:
  struct State;
  static void work(const std::shared_ptr<State>& state, const WorkerPoolOptions& options);

  std::shared_ptr<State> state_;  // the threads hold it too
  std::vector<std::thread> threads_;
};

}  // namespace tilemesh::cpu
