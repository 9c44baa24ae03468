#include <algorithm>
#include <array>
#include <bit>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "tilemesh/memory/lockstep_allocator.hpp"

namespace tilemesh {
namespace {

constexpr std::int64_t kUnit = 64;
constexpr int kUnits = 64;  // one bit each

/// Every unit of every device, as bits.
class Model {
 public:
  explicit Model(int device_count) : taken_(static_cast<std::size_t>(device_count)) {}

  /// Best fit by looking at every unit of the holes that begin below a unit; the offset in units,
  /// or -1.
  int find(const std::vector<int>& devices, int units, int alignment, Lifetime lifetime,
           int limit) const {
    std::uint64_t taken = 0;
    for (const int device : devices)
      taken |= taken_[static_cast<std::size_t>(device)];
    int best = -1;
    int best_size = kUnits + 1;
    for (int begin = 0; begin < kUnits;) {
      if (taken >> begin & 1) {
        ++begin;
        continue;
      }
      int end = begin;
      while (end < kUnits && !(taken >> end & 1))
        ++end;
      const int low = (begin + alignment - 1) / alignment * alignment;
      const int high = (end - units) / alignment * alignment;
      const bool fits =
          begin < limit && end - begin >= units && low + units <= end && high >= begin;
      const bool better =
          lifetime == Lifetime::lasting ? end - begin < best_size : end - begin <= best_size;
      if (fits && better) {
        best = lifetime == Lifetime::lasting ? low : high;
        best_size = end - begin;
      }
      begin = end;
    }
    return best;
  }

  /// False if a unit was in that state already.
  bool mark(const std::vector<int>& devices, int offset, int units, bool used) {
    const std::uint64_t bits =
        (units == kUnits ? ~std::uint64_t{0} : (std::uint64_t{1} << units) - 1) << offset;
    bool right = true;
    for (const int device : devices) {
      auto& taken = taken_[static_cast<std::size_t>(device)];
      right = right && (taken & bits) == (used ? 0 : bits);
      taken = used ? taken | bits : taken & ~bits;
    }
    return right;
  }
  std::int64_t used_bytes(int device) const {
    return std::popcount(taken_[static_cast<std::size_t>(device)]) * kUnit;
  }
  std::size_t class_count() const {
    return std::set<std::uint64_t>(taken_.begin(), taken_.end()).size();
  }

 private:
  std::vector<std::uint64_t> taken_;
};

struct Live {
  std::vector<int> devices;
  ByteRange range;
  Lifetime lifetime;
};

/// Where lasting ranges go: below all temporary ones if they can.
int find(const Model& model, const std::vector<Live>& live, const std::vector<int>& devices,
         int units, int alignment, Lifetime lifetime) {
  int lowest = kUnits;
  for (const Live& each : live) {
    if (each.lifetime == Lifetime::temporary) {
      lowest = std::min(lowest, static_cast<int>(each.range.offset / kUnit));
    }
  }
  int offset = -1;
  if (lifetime == Lifetime::lasting) {
    offset = model.find(devices, units, alignment, lifetime, lowest);
  }
  return offset >= 0 ? offset : model.find(devices, units, alignment, lifetime, kUnits);
}

TEST(LockstepAllocatorStress, AMillionStepsAgreeWithAModelOfEveryUnit) {
  constexpr int kDevices = 6;
  constexpr int kSteps = 1'000'000;
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto below = [&](int n) {
    return static_cast<int>(random() % static_cast<unsigned>(n));
  };
  const std::vector<int> all = {0, 1, 2, 3, 4, 5};
  const std::vector<std::vector<int>> submeshes = {
      all, all, {0, 1, 2}, {3, 4, 5}, {0, 3}, {1, 4}, {2, 5}, {4}, {0, 1, 3, 4}, {1, 2, 4, 5}};

  LockstepAllocator allocator(kDevices, kUnits * kUnit);
  Model model(kDevices);
  std::array<std::int64_t, kDevices> peaks{};
  std::vector<Live> live;
  for (int step = 0; step < kSteps; ++step) {
    // Fills up, then drains to nothing, so that classes split and meet again.
    const bool take = live.empty() || below(10) < (step / 200 % 2 == 0 ? 6 : 3);
    if (take) {
      const auto& devices =
          submeshes[static_cast<std::size_t>(below(static_cast<int>(submeshes.size())))];
      const bool full = devices.size() == kDevices;
      const int units = 1 + below(below(8) == 0 ? 24 : 5);
      const int alignment = 1 << below(4);
      const auto lifetime = below(2) == 0 ? Lifetime::lasting : Lifetime::temporary;
      const auto range =
          allocator.take({units * kUnit, alignment * kUnit, lifetime, full ? nullptr : &devices});
      const int expected = find(model, live, devices, units, alignment, lifetime);
      ASSERT_EQ(range ? range->offset / kUnit : -1, expected) << "step " << step;
      if (!range) continue;
      ASSERT_EQ(range->bytes, units * kUnit);
      ASSERT_EQ(range->offset % (alignment * kUnit), 0);
      ASSERT_TRUE(model.mark(devices, expected, units, true)) << "overlap in step " << step;
      for (const int device : devices) {
        auto& peak = peaks[static_cast<std::size_t>(device)];
        peak = std::max(peak, model.used_bytes(device));
      }
      live.push_back({devices, *range, lifetime});
    } else {
      std::swap(live[static_cast<std::size_t>(below(static_cast<int>(live.size())))], live.back());
      const Live gone = std::move(live.back());
      live.pop_back();
      allocator.give(gone.devices.size() == kDevices ? nullptr : &gone.devices, gone.range);
      ASSERT_TRUE(model.mark(gone.devices, static_cast<int>(gone.range.offset / kUnit),
                             static_cast<int>(gone.range.bytes / kUnit), false));
    }
    ASSERT_EQ(static_cast<std::size_t>(allocator.class_count()), model.class_count())
        << "step " << step;
    const int device = step % kDevices;
    ASSERT_EQ(allocator.used_bytes(device), model.used_bytes(device)) << "step " << step;
    ASSERT_EQ(allocator.peak_bytes(device), peaks[static_cast<std::size_t>(device)])
        << "step " << step;
  }
  for (const Live& rest : live)
    allocator.give(rest.devices.size() == kDevices ? nullptr : &rest.devices, rest.range);
  EXPECT_EQ(allocator.class_count(), 1);
  EXPECT_EQ(allocator.largest_hole_bytes(nullptr), kUnits * kUnit);
}

}  // namespace
}  // namespace tilemesh
