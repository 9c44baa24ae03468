#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilemesh/device/command.hpp"
#include "tilemesh/device/step.hpp"
#include "tilemesh/types/tensor_spec.hpp"

namespace tilemesh {

struct DeviceInfo {
  std::string name;     ///< "cpu:0"
  std::string backend;  ///< "cpu"
  int threads = 1;
  std::int64_t dram_bytes = 0;
  std::int64_t l1_bytes = 0;
};

/// A device's place in a group whose programs meet while they run.
struct Membership {
  std::shared_ptr<Communicator> communicator;
  int member = 0;
};

/// A program's steps, prepared on one device: kernels made, addresses resolved where they are
/// fixed. Owned by the executable; run only by commands of that device, one at a time.
class DeviceProgram {
 public:
  DeviceProgram() = default;
  DeviceProgram(const DeviceProgram&) = delete;
  DeviceProgram& operator=(const DeviceProgram&) = delete;
  virtual ~DeviceProgram() = default;

  /// Memory that its kernels use beside the arenas.
  virtual std::int64_t scratch_bytes() const = 0;
  /// The chosen implementation of each step, "" for control steps.
  virtual std::vector<std::string> implementations() const = 0;
  /// The group that its launches meet; each needs a gathering that all members of the launch share.
  /// Null if it meets nobody.
  virtual const Membership* membership() const { return nullptr; }
};

/// An in-order queue of one device. Thread-safe. Commands run one after the other, each once all
/// its `after` events are complete; one that fails, or whose `after` has failed, completes its
/// `done` with the first cause, and the queue goes on. While a launch waits for the other members
/// of its group, other queues of the device go on; it takes no thread.
class DeviceQueue {
 public:
  DeviceQueue() = default;
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;
  virtual ~DeviceQueue() = default;

  virtual void enqueue(Command command) = 0;
  /// True if nothing is pending or running, and the events of all commands are complete.
  virtual bool idle() const = 0;
  /// If the device is idle and the calling thread may act for it: runs the program here and now and
  /// returns true (its failure is thrown). Otherwise, and if the program has a membership, does
  /// nothing and returns false.
  virtual bool try_run_inline(DeviceProgram& program, std::span<const DeviceAddress> bases) = 0;
  /// Lends the calling thread to the device for at most one pending command; false if there was
  /// nothing to do or the thread can't act for it.
  virtual bool help() = 0;
};

/// One place that computes and has its own memories: the seam between the mesh and a backend.
/// Owned by the mesh; thread-safe. Arenas are one flat range per space, addressed by offset from 0.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;
  /// The arena's first byte if the host can address it, else null.
  virtual std::byte* map(Space space) = 0;
  /// Says that a range will be used soon, so that a backend can back it with memory ahead.
  virtual void commit(DeviceAddress address, std::int64_t bytes) = 0;
  /// Makes the kernels, on the device's own thread where that matters. Throws unsupported with
  /// every implementation's reason if a step has none.
  virtual std::shared_ptr<DeviceProgram> prepare(std::span<const DeviceStep> steps) = 0;
  virtual std::unique_ptr<DeviceQueue> create_queue() = 0;
};

/// How a backend makes its devices; each backend has one, and `builtin` names them all.
struct DeviceOptions {
  int count = 1;
  int threads_per_device = 0;  ///< 0: the cores that the process may use, divided evenly, >= 1
  /// Threads that all devices share, each of which then has one; 0: the backend's choice.
  int workers = 0;
  std::int64_t dram_bytes = 0;  ///< 0: the backend's choice
  std::int64_t l1_bytes = 0;    ///< 0: the backend's choice
  /// What errors call each device, "(0,1)"; empty: its name.
  std::vector<std::string> places = {};
};

}  // namespace tilemesh
