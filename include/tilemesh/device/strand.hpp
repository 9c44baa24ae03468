#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tilemesh/device/command.hpp"
#include "tilemesh/device/ring_queue.hpp"
#include "tilemesh/device/spin_lock.hpp"

namespace tilemesh::detail {

/// The pending commands of one queue; guarded by its strand.
struct Lane {
  RingQueue<Command> commands;      // the first may be set aside in the midst of it
  bool active = false;              // ready, being carried out, or waiting for an event
  std::atomic<int> unfinished = 0;  // falls once a command's `done` is complete

  bool idle() const { return unfinished.load() == 0; }
};

/// The commands of one device, for backends that carry them out on threads of the host: one at a
/// time, in order within a lane, the lanes in turn. A lane whose next command waits for an event,
/// be it in the midst of it, is set aside until the event completes, and takes no thread. The
/// backend says what carries the strand on; any other thread may claim it while nothing is pending,
/// or help with one command.
class Strand : public std::enable_shared_from_this<Strand> {
 public:
  /// `place` is what errors call the device.
  explicit Strand(std::string place) : place_(std::move(place)) {}
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;
  virtual ~Strand() = default;

  const std::string& place() const { return place_; }
  std::shared_ptr<Lane> make_lane();
  void enqueue(const std::shared_ptr<Lane>& lane, Command command);
  /// Carries out one command on the calling thread; false if there was none, or somebody is at it.
  bool help();
  /// Commands that haven't begun or are set aside fail, and so do later ones.
  void close();
  /// True if no lane has anything pending or running.
  bool idle() const { return unfinished_.load() == 0; }

  /// Holds the strand for the calling thread, as one of the lane's commands would, if nothing was
  /// pending.
  class Claim {
   public:
    Claim(Strand& strand, Lane& lane);
    ~Claim();
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    bool held() const { return held_; }

   private:
    Strand& strand_;
    Lane& lane_;
    bool held_;
  };

 protected:
  /// Carries out the work of a command whose dependencies are ready. None if it has ended;
  /// otherwise what to wait for before it is called again, to go on. What it throws fails the
  /// command, with its label and the place before the text.
  virtual std::optional<Event> carry_out(const CommandWork& work) = 0;
  /// There is something to do and nobody is at it: carry_on() is to be called, on any thread.
  /// Called once for each time that this happens.
  virtual void schedule() = 0;

  /// To be called after schedule(): carries out at most `limit` commands, then schedules itself
  /// again if there are more. Does nothing if a helping thread was faster.
  void carry_on(int limit);
  /// Instead of carry_on(), for a thread that does nothing else: carries out whatever comes, until
  /// nothing has come for as long as `spin`. Meanwhile nothing is scheduled.
  void poll(std::chrono::nanoseconds spin);

 private:
  enum class State : int { idle, scheduled, running };

  bool begin(State from);
  void leave();
  int run_some(int limit);
  std::shared_ptr<Lane> next_lane(std::unique_lock<SpinLock>& lock);
  Status outcome(Command& command, std::optional<Event>& awaited);
  bool put_back(Lane& lane, Command& command);
  EventSource let_go(Command command);
  void drop(Lane& lane, Command command);
  void set_aside(const std::shared_ptr<Lane>& lane, const Event& awaited);
  void make_ready(const std::shared_ptr<Lane>& lane);
  void schedule_if_ready();

  static constexpr std::size_t kCacheLine = 64;

  // The poller reads nothing but this line, so that others write the rest undisturbed.
  alignas(kCacheLine) std::atomic<int> ready_count_ = 0;  // size of ready_
  std::atomic<bool> polled_ = false;  // a thread looks at ready_count_ by itself
  std::atomic<bool> closed_ = false;
  alignas(kCacheLine) std::atomic<State> state_ = State::idle;
  std::atomic<int> unfinished_ = 0;  // commands of all lanes; falls before `done` completes
  SpinLock lock_;                    // of all below, and of the lanes
  Status closed_status_;             // failed once closed, and fixed then
  RingQueue<std::shared_ptr<Lane>> ready_;
  std::vector<std::shared_ptr<Lane>> lanes_;
  const std::string place_;
};

}  // namespace tilemesh::detail
