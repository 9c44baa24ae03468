#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tilemesh/device/device.hpp"
#include "tilemesh/device/host_exchange.hpp"

namespace tilemesh::detail {

/// The exchanges of one device's program, and where its launch stands, which is set aside while it
/// waits for other members. Used by one thread at a time.
class ProgramExchanges {
 public:
  /// Throws as HostExchange does, with the step's name, and invalid_argument for steps of several
  /// groups.
  ProgramExchanges(std::span<const DeviceStep> steps, const HostMemory& memory,
                   FindReduction find = plain_reduction);

  /// As DeviceProgram says it.
  const Membership* membership() const { return meets_ ? &membership_ : nullptr; }
  /// Begins a launch, or goes on with the one that was set aside: the step where it is. Throws
  /// invalid_argument while another launch is under way, and without a gathering if there are
  /// meetings.
  std::size_t enter(const std::shared_ptr<Gathering>& gathering);
  /// Carries out a step as far as it can, waiting for at most `spin`; false if the launch is to be
  /// set aside until set_aside()'s event is complete, and then entered again.
  bool run(std::size_t step, std::byte* source, std::byte* target, std::chrono::nanoseconds spin);
  Event set_aside(std::size_t step);
  /// The launch has ended, well or with an error. An error is for the queue to tell the others.
  void end(bool well);

 private:
  struct Entry {
    std::unique_ptr<HostExchange> exchange;  // null: another kind of step
    bool follows = false;  // after one with meetings and nothing to finish: all are there
    std::string name;
  };
  enum class Stage : std::uint8_t { before, coming, working };

  void add(const DeviceStep& step, const HostMemory& memory, FindReduction find, Entry& entry);
  bool met(std::chrono::nanoseconds spin) const;

  std::vector<Entry> entries_;  // by step; none without exchanges
  std::shared_ptr<HostPeers> peers_;
  Membership seen_;  // whose peers they are
  Membership membership_;
  bool meets_ = false;

  std::shared_ptr<Gathering> gathering_;  // null: no launch with meetings is under way
  std::size_t step_ = 0;
  int meeting_ = 0;
  Stage stage_ = Stage::before;
};

}  // namespace tilemesh::detail
