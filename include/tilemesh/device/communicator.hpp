#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "tilemesh/base/status.hpp"
#include "tilemesh/device/event.hpp"
#include "tilemesh/types/redistribution.hpp"

namespace tilemesh {

/// One run of a program by all members of a group: where they meet. Every member comes to the same
/// meetings in the same order, numbered from 0. Thread-safe; shared by the commands of one launch.
class Gathering {
 public:
  Gathering() = default;
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;
  virtual ~Gathering() = default;

  /// The member is there; `where` names the step for errors and must live until leave() or fail().
  virtual void arrive(int member, int meeting, const std::string& where) = 0;
  /// True once all members are there; throws the first cause if one failed before. What a member
  /// wrote before it came is seen by all afterwards. All members are told the same.
  virtual bool complete(int meeting) const = 0;
  /// Completes once complete() would return true or throw; for members that have no thread to spin.
  /// Fails them all when the time of the communicator is over, naming who isn't there; but not
  /// while they are `working` in each other's memory, which nobody may leave before all have ended.
  virtual Event event(int meeting, bool working) = 0;
  /// The member has ended its run.
  virtual void leave(int member) = 0;
  /// The member gives up: all meetings that aren't complete fail. Returns the first such cause,
  /// which is what the member's command fails with.
  virtual Status fail(int member, const Status& cause) = 0;
};

/// The transport among the devices of a group, whose members are numbered from 0. Immutable; must
/// not outlive the devices.
class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  virtual int size() const = 0;
  /// What errors call a member: "(0,1)".
  virtual const std::string& place(int member) const = 0;
  /// First byte of the member's arena: between two meetings every member may read it, and write
  /// where no other does. Null if the member hasn't got the space.
  virtual std::byte* arena(int member, Space space) const = 0;
  /// For one launch, which errors call `label`.
  virtual std::shared_ptr<Gathering> gather(std::string label) = 0;
};

/// A collective: elements of one tensor go from where `from` says to where `to` says, with the
/// axes reduced that are partial in `from` alone, in the order of their coordinates. All members
/// meet, work on their own part reading the memory of others, and meet again; if no member needs
/// another's memory, nobody meets. Layouts are row-major, or, where a reduction leaves all else as
/// it is, any that both share.
struct Exchange {
  TensorSpec from;
  TensorSpec to;
  DeviceNumbers members = {};  ///< of the communicator, at the coordinates of both meshes
  /// What the elements beyond a shard's extent become: neutral in a reduction by this.
  ReduceOp fill = ReduceOp::sum;
};

/// An exchange as one member takes part in it.
struct ExchangePart {
  std::shared_ptr<const Exchange> exchange;
  std::shared_ptr<Communicator> communicator;
  int member = 0;
};

}  // namespace tilemesh
