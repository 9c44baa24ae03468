#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tilemesh/device/communicator.hpp"
#include "tilemesh/device/spin_lock.hpp"

namespace tilemesh::detail {

/// The members of a local group, as errors call them.
using Places = std::vector<std::string>;

/// Members that meet by counting up one word.
class LocalGathering final : public Gathering {
 public:
  LocalGathering(std::shared_ptr<const Places> places, std::string label);

  void arrive(int member, int meeting, const std::string& where) override;
  bool complete(int meeting) const override;
  Event event(int meeting, bool working) override;
  void leave(int member) override;
  Status fail(int member, const Status& cause) override;

 private:
  // The word: arrivals in the lower half. Once failed, the highest bit is set, and the upper half
  // keeps how many there were then, which decides for all members what is complete.
  static constexpr std::uint64_t kFailed = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kCount = 0xffffffff;
  static constexpr std::size_t kCacheLine = 64;

  /// Where a member was last; on a cache line of its own.
  struct alignas(kCacheLine) Slot {
    std::atomic<const std::string*> where = nullptr;  // taken back under lock_
  };
  using Waiting = std::optional<EventSource>;

  std::uint64_t wanted(int meeting) const {
    return (static_cast<std::uint64_t>(meeting) + 1) * slots_.size();
  }
  static std::uint64_t count_of(std::uint64_t word) {
    return (word & kFailed) != 0 ? word >> 32 & (kCount >> 1) : word & kCount;
  }
  Status fail_once(const Status& cause);

  alignas(kCacheLine) std::atomic<std::uint64_t> word_ = 0;
  alignas(kCacheLine) mutable SpinLock lock_;  // of all below
  Status failure_;                             // fixed once kFailed is set
  // Those who wait for a meeting; while one of meeting j is there, none of j + 2 can be.
  std::array<Waiting, 2> waiting_;

  std::vector<Slot> slots_;  // by member
  const std::shared_ptr<const Places> places_;
  const std::string label_;
};

}  // namespace tilemesh::detail
