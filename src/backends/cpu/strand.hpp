#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "tilemesh/device/command.hpp"

#include "backends/cpu/ring_queue.hpp"
#include "backends/cpu/worker_pool.hpp"

namespace tilemesh::cpu {

/// The pending commands of one queue; guarded by its strand.
struct Lane {
  RingQueue<Command> commands;
  bool active = false;              // ready, being carried out, or waiting for an event
  std::atomic<int> unfinished = 0;  // falls before a command's `done` completes
};

/// The commands of one device: one at a time, in order within a lane, the lanes in turn. A lane
/// whose next command waits for an event is set aside until the event completes, and takes no
/// thread. Workers carry the strand on; another thread may claim it while nothing is pending, or
/// help with one command.
class Strand : public Work, public std::enable_shared_from_this<Strand> {
 public:
  /// `shares_workers`: other strands use the pool too, so that this one must give way.
  Strand(std::shared_ptr<WorkerPool> pool, bool shares_workers);

  std::shared_ptr<Lane> make_lane();
  void enqueue(const std::shared_ptr<Lane>& lane, Command command);
  /// True if nothing was pending and the calling thread now acts for the device, as one of the
  /// lane's commands; it must call release_claim().
  bool try_claim(Lane& lane);
  void release_claim(Lane& lane);
  /// Carries out one command on the calling thread; false if there was none, or a worker is at it.
  bool help();
  /// Commands that haven't begun fail with this status, and so do later ones.
  void close(const Status& status);
  /// True if no lane has anything pending or running.
  bool idle() const { return unfinished_.load() == 0; }
  WorkerPool& pool() const { return *pool_; }

  void run() override;

 protected:
  /// Does the work of a command whose dependencies are ready and returns its outcome.
  virtual Status carry_out(Command& command) = 0;

 private:
  enum class State { idle, scheduled, running };

  bool run_one();
  void release();
  void finish(Lane& lane, Command command);
  void end(Lane& lane, Command command, const Status& status);
  void set_aside(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Lane>& lane,
                 const Event& awaited);
  void make_ready(const std::shared_ptr<Lane>& lane);
  void schedule_if_ready();

  std::shared_ptr<WorkerPool> pool_;
  bool shares_workers_;
  std::atomic<State> state_ = State::idle;
  std::atomic<int> ready_count_ = 0;  // size of ready_
  std::atomic<int> unfinished_ = 0;   // commands of all lanes
  std::mutex mutex_;                  // of all below, and of the lanes
  RingQueue<std::shared_ptr<Lane>> ready_;
  std::vector<std::shared_ptr<Lane>> lanes_;
  Status closed_;
};

}  // namespace tilemesh::cpu
