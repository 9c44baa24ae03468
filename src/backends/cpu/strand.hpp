#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "tilemesh/device/command.hpp"
#include "tilemesh/device/spin_lock.hpp"

#include "backends/cpu/ring_queue.hpp"
#include "backends/cpu/worker_pool.hpp"

namespace tilemesh::cpu {

/// The pending commands of one queue; guarded by its strand.
struct Lane {
  RingQueue<Command> commands;      // the first may be set aside in the midst of it
  bool active = false;              // ready, being carried out, or waiting for an event
  std::atomic<int> unfinished = 0;  // falls once a command's `done` is complete
};

/// The commands of one device: one at a time, in order within a lane, the lanes in turn. A lane
/// whose next command waits for an event, be it in the midst of it, is set aside until the event
/// completes, and takes no thread. Workers carry the strand on; another thread may claim it while
/// nothing is pending, or help with one command.
class Strand : public Work, public std::enable_shared_from_this<Strand> {
 public:
  struct Options {
    std::shared_ptr<WorkList> workers;
    /// Other strands use the workers too: this one gives way to them between commands. Otherwise
    /// the worker is its own, and polls it for a while before it sleeps.
    bool shares_workers = false;
  };
  explicit Strand(Options options) : options_(std::move(options)) {}

  std::shared_ptr<Lane> make_lane();
  void enqueue(const std::shared_ptr<Lane>& lane, Command command);
  /// True if nothing was pending and the calling thread now acts for the device, as one of the
  /// lane's commands; it must call release_claim().
  bool try_claim(Lane& lane);
  void release_claim(Lane& lane);
  /// Carries out one command on the calling thread; false if there was none, or a worker is at it.
  bool help();
  /// Commands that haven't begun or are set aside fail with this status, and so do later ones.
  void close(const Status& status);
  /// True if no lane has anything pending or running.
  bool idle() const { return unfinished_.load() == 0; }

  void run() override;

 protected:
  /// Does the work of a command whose dependencies are ready and returns its outcome; or sets
  /// `awaited`: it is to be called again, to go on, once that event is complete.
  virtual Status carry_out(Command& command, std::optional<Event>& awaited) = 0;

 private:
  enum class State : int { idle, scheduled, running };

  bool begin(State from);
  void release();
  void poll();
  int run_some(int limit);
  std::shared_ptr<Lane> next_lane(std::unique_lock<detail::SpinLock>& lock);
  Status outcome(Command& command, std::optional<Event>& awaited);
  bool put_back(Lane& lane, Command& command);
  EventSource let_go(Command command);
  void drop(Lane& lane, Command command, const Status& status);
  void set_aside(const std::shared_ptr<Lane>& lane, const Event& awaited);
  void make_ready(const std::shared_ptr<Lane>& lane);
  void schedule_if_ready();

  static constexpr std::size_t kCacheLine = 64;

  // The poller reads nothing but this line, so that others write the rest undisturbed.
  alignas(kCacheLine) std::atomic<int> ready_count_ = 0;  // size of ready_
  std::atomic<bool> polled_ = false;  // the own worker looks at ready_count_ by itself
  std::atomic<bool> closed_ = false;
  alignas(kCacheLine) std::atomic<State> state_ = State::idle;
  std::atomic<int> unfinished_ = 0;  // commands of all lanes; falls before `done` completes
  detail::SpinLock lock_;            // of all below, and of the lanes
  Status closed_status_;             // failed once closed
  RingQueue<std::shared_ptr<Lane>> ready_;
  std::vector<std::shared_ptr<Lane>> lanes_;
  const Options options_;
};

}  // namespace tilemesh::cpu
