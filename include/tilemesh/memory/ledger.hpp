#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tilemesh/memory/lockstep_allocator.hpp"
#include "tilemesh/memory/report.hpp"

namespace tilemesh {

/// The lock-step arenas of a mesh with a label on every range: the allocator of each space plus who
/// holds what. `devices` are numbers, sorted and unique; null means all. Thread-safe; touches no
/// memory.
class Ledger {
 public:
  /// `decorate`, if given, wraps the allocator of each space.
  Ledger(int device_count, std::int64_t dram_bytes, std::int64_t l1_bytes,
         const AllocatorDecorator& decorate = {});
  ~Ledger();

  /// Nullopt if there is no room. In steady state (a label seen before, a free range at hand) it
  /// allocates no heap memory.
  std::optional<ByteRange> allocate(Space space, std::int64_t bytes, std::int64_t alignment,
                                    Lifetime lifetime, std::string_view label,
                                    const std::vector<int>* devices = nullptr);
  /// Gives back what allocate returned for the same devices and label.
  void free(Space space, const ByteRange& range, std::string_view label,
            const std::vector<int>* devices = nullptr) noexcept;

  /// What these devices hold. Where they differ: used, peak and holders are those of the device
  /// with most, and the largest hole is the largest that all have at one offset.
  MemoryReport report(const std::vector<int>* devices = nullptr) const;
  /// "asked 64 MiB of dram for "w": 12 MiB of 1 GiB are free, the largest hole has 8 MiB; largest
  /// holders: ..."
  /// With `place`: "asked 64 MiB of dram for "w" on 1x1: ...".
  std::string describe_shortage(Space space, std::int64_t bytes, std::string_view label,
                                const std::vector<int>* devices = nullptr,
                                std::string_view place = {}) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tilemesh
