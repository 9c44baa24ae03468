#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tilemesh/device/communicator.hpp"
#include "tilemesh/device/spin_lock.hpp"

#include "device/watchdog.hpp"

namespace tilemesh::detail {

/// What the gatherings of a local group share.
struct LocalGroup {
  std::vector<std::string> places;  ///< of the members, as errors call them
  std::chrono::nanoseconds timeout = {};
  std::weak_ptr<Watchdog> watchdog;
  std::shared_ptr<Watchdog::List> watched;
};

/// Members that meet by counting up one word.
class LocalGathering final : public Gathering, public std::enable_shared_from_this<LocalGathering> {
 public:
  LocalGathering(std::shared_ptr<const LocalGroup> group, std::string label);
  ~LocalGathering() override;

  void arrive(int member, int meeting, const std::string& where) override;
  bool complete(int meeting) const override;
  Event event(int meeting, bool working) override;
  void leave(int member) override;
  Status fail(int member, const Status& cause) override;

  /// Fails all if somebody has been waited for too long.
  void look_at_clock(std::chrono::steady_clock::time_point now);
  struct Links {
    LocalGathering* before = nullptr;
    LocalGathering* next = nullptr;
  };
  /// For the watchdog's list alone.
  Links& links() { return links_; }

 private:
  // The word: arrivals in the lower half. Once failed, the highest bit is set, and the upper half
  // keeps how many there were then, which decides for all members what is complete.
  static constexpr std::uint64_t kFailed = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kCount = 0xffffffff;
  static constexpr std::size_t kCacheLine = 64;

  /// Where a member was last; on a cache line of its own.
  struct alignas(kCacheLine) Slot {
    std::atomic<int> meeting = -1;
    std::atomic<const std::string*> where = nullptr;  // taken back under lock_
  };
  /// Those who wait for a meeting.
  struct Waiting {
    EventSource source;
    bool working = false;
    std::chrono::steady_clock::time_point since;
  };

  std::uint64_t wanted(int meeting) const {
    return (static_cast<std::uint64_t>(meeting) + 1) * slots_.size();
  }
  static std::uint64_t count_of(std::uint64_t word) {
    return (word & kFailed) != 0 ? word >> 32 & (kCount >> 1) : word & kCount;
  }
  std::string who_is_missing(int meeting) const;
  bool fail_unless_complete(int meeting, const Status& cause);

  alignas(kCacheLine) std::atomic<std::uint64_t> word_ = 0;
  alignas(kCacheLine) mutable SpinLock lock_;  // of all below
  Status failure_;                             // fixed once kFailed is set
  // By the meeting's last bit: while some wait for j, nobody can for j + 2.
  std::array<std::optional<Waiting>, 2> waiting_;
  std::array<int, 2> waiting_for_{};
  bool watched_ = false;
  Links links_;  // guarded by the list

  std::vector<Slot> slots_;  // by member
  const std::shared_ptr<const LocalGroup> group_;
  const std::string label_;
};

}  // namespace tilemesh::detail
