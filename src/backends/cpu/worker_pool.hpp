#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tilemesh/device/spin_lock.hpp"

namespace tilemesh::cpu {

/// What a worker carries out: it is in the list at most once.
class Work {
 public:
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  virtual ~Work() = default;

  virtual void run() = 0;

 private:
  friend class WorkList;
  bool listed_ = false;  // guarded by the list
};

/// The list that a pool's workers take work from, first in, first out.
class WorkList {
 public:
  WorkList();
  ~WorkList();
  WorkList(const WorkList&) = delete;
  WorkList& operator=(const WorkList&) = delete;

  /// Does nothing if it is listed already. Wakes a worker only if too few are awake.
  void schedule(std::shared_ptr<Work> work);
  /// For workers: the next work, or null when the list has ended. Spins for `spin`, then sleeps.
  std::shared_ptr<Work> next(std::chrono::nanoseconds spin);
  /// Nothing is given out any more.
  void end();

 private:
  struct State;
  std::shared_ptr<Work> pop();

  std::unique_ptr<State> state_;
};

struct WorkerPoolOptions {
  int workers = 1;
  std::string name = "tilemesh";       ///< of the threads, as the system shows it
  std::vector<unsigned> processors{};  ///< that they are bound to; empty: none
  int threads_per_worker = 1;          ///< OpenMP threads that a worker's kernels may use
  std::chrono::nanoseconds spin = {};  ///< how long a worker without work spins
};

/// The threads. Its list may outlive it.
class WorkerPool {
 public:
  explicit WorkerPool(const WorkerPoolOptions& options);
  /// Waits for what is being run, and drops what is scheduled. May run on one of its own workers,
  /// which then ends by itself.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  const std::shared_ptr<WorkList>& list() const { return list_; }
  bool is_this_thread() const;

 private:
  std::shared_ptr<WorkList> list_;  // the threads hold it too
  std::vector<std::thread> threads_;
};

}  // namespace tilemesh::cpu
