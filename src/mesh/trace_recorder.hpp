#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "tilemesh/device/capture_scope.hpp"
#include "tilemesh/device/command.hpp"

#include "mesh/mesh_core.hpp"

namespace tilemesh::detail {

/// Events that wait for a first replay. Fails them if there was none.
class Promises {
 public:
  Promises() = default;
  Promises(const Promises&) = delete;
  Promises& operator=(const Promises&) = delete;
  ~Promises();

  void add(const EventSource& source) { sources_.push_back(source); }
  /// Completes them as the event does; only the first call has an effect.
  void keep(const Event& replayed);

 private:
  std::mutex mutex_;
  std::vector<EventSource> sources_;
};

/// Bytes that a replay moves between host and devices.
struct TraceCounts {
  std::int64_t bytes = 0;
  std::int64_t transfers = 0;
  void add(std::int64_t more_bytes, std::int64_t more_transfers) {
    bytes += more_bytes;
    transfers += more_transfers;
  }
};

/// What devices do in a replay until they wait for each other.
struct TracePhase {
  /// By the core's number of the device; null where there is nothing to do.
  std::vector<std::shared_ptr<const CommandList>> lists;
  /// Whose members meet while they run the one launch that this phase is; mostly null.
  std::shared_ptr<Communicator> communicator;

  /// What a device that has a list does in a replay.
  CommandWork work(std::size_t device, const std::shared_ptr<Gathering>& gathering) const;
  /// Of the launch whose devices meet: what errors call it, and the first device's program.
  std::string label() const { return first().label; }
  const DeviceProgram& program() const;

 private:
  const CommandList::Entry& first() const;
};

/// A recording; never changed once captured, but for its promises.
struct TraceState {
  std::shared_ptr<MeshCore> core;
  std::vector<TracePhase> phases;  // all devices end one before any begins the next
  std::vector<Event> outside;
  std::vector<std::shared_ptr<const void>> held;
  TraceCounts uploads;
  TraceCounts downloads;
  std::unique_ptr<Promises> promises = std::make_unique<Promises>();
};

/// Takes commands in the order in which one thread enqueues them. A command that needs one of
/// another device begins a phase, unless that one lies in an earlier phase.
class TraceRecorder final : public Capture {
 public:
  explicit TraceRecorder(std::shared_ptr<MeshCore> core);

  const MeshCore& core() const { return *state_->core; }
  void add(int device, Command command);
  /// What is added from now on is one launch whose devices meet, until the next call, with null.
  void meet(std::shared_ptr<Communicator> communicator);
  void hold(std::shared_ptr<const void> kept) { state_->held.push_back(std::move(kept)); }
  TraceCounts& uploads() { return state_->uploads; }
  TraceCounts& downloads() { return state_->downloads; }
  void joined(const Event& all, std::span<const Event> events) override;
  /// The recording; this is empty afterwards.
  std::shared_ptr<const TraceState> finish();

 private:
  /// A command of a device within a phase.
  struct Point {
    int device = 0;
    std::size_t phase = 0;
  };
  void need(int device, const Event& event, bool forgives);
  void begin_phase();

  struct Phase {
    std::vector<std::shared_ptr<CommandList>> lists;
    std::shared_ptr<Communicator> communicator;
  };

  std::shared_ptr<TraceState> state_;
  std::vector<Phase> phases_;
  std::unordered_map<const void*, std::vector<Point>> points_;  // that complete an event
  std::vector<Event> known_;                                    // so that no id is used again
};

}  // namespace tilemesh::detail
