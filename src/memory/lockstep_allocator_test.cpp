#include "tilemesh/memory/lockstep_allocator.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/inline_vector.hpp"
#include "tilemesh/base/math.hpp"

#include "free_list.hpp"

// Counts what the test program takes from the heap, in place of all the operators that a sanitizer
// would bring. Not inlined, or g++ sees malloc meet delete.
namespace {
thread_local std::int64_t heap_allocations = 0;

[[gnu::noinline]] void* take(std::size_t bytes) noexcept {
  ++heap_allocations;
  return std::malloc(std::max<std::size_t>(bytes, 1));
}

[[gnu::noinline]] void give(void* memory) noexcept {
  std::free(memory);
}
}  // namespace

void* operator new(std::size_t bytes) {
  if (void* memory = take(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new[](std::size_t bytes) {
  return operator new(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return take(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return take(bytes);
}
void operator delete(void* memory) noexcept {
  give(memory);
}
void operator delete[](void* memory) noexcept {
  give(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  give(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  give(memory);
}

namespace tilemesh {
namespace {

using namespace literals;

TEST(LockstepAllocator, LastingGrowsUpAndTemporaryDown) {
  LockstepAllocator allocator(2, 1_MiB);
  EXPECT_EQ(allocator.allocate(100, 64, Lifetime::lasting), (ByteRange{0, 128}));
  EXPECT_EQ(allocator.allocate(64, 64, Lifetime::lasting), (ByteRange{128, 64}));
  EXPECT_EQ(allocator.allocate(4096, 64, Lifetime::temporary), (ByteRange{1_MiB - 4096, 4096}));
  EXPECT_EQ(allocator.used_bytes(0), 192 + 4096);
  EXPECT_EQ(allocator.used_bytes(1), 192 + 4096);
  EXPECT_EQ(allocator.class_count(), 1);
}

TEST(LockstepAllocator, ZeroBytesTakeOneAlignment) {
  LockstepAllocator allocator(1, 1_MiB);
  const auto a = allocator.allocate(0, 256, Lifetime::lasting);
  const auto b = allocator.allocate(0, 256, Lifetime::lasting);
  EXPECT_EQ(a, (ByteRange{0, 256}));
  EXPECT_EQ(b, (ByteRange{256, 256}));
  allocator.free(*a);
  allocator.free(*b);
  EXPECT_EQ(allocator.largest_hole_bytes(0), 1_MiB);
  EXPECT_EQ(allocator.peak_bytes(0), 512);
}

TEST(LockstepAllocator, ASmallRangeDoesNotSpoilALargeHole) {
  LockstepAllocator allocator(1, 1_MiB);
  const auto large = allocator.allocate(16_KiB, 64, Lifetime::lasting);
  const auto wall = allocator.allocate(64, 64, Lifetime::lasting);
  const auto small = allocator.allocate(8_KiB, 64, Lifetime::lasting);
  const auto end = allocator.allocate(64, 64, Lifetime::lasting);
  ASSERT_TRUE(large && wall && small && end);
  allocator.free(*large);
  allocator.free(*small);
  EXPECT_EQ(allocator.allocate(8_KiB, 64, Lifetime::lasting), small);
  EXPECT_EQ(allocator.allocate(16_KiB, 64, Lifetime::temporary), large);
}

TEST(LockstepAllocator, EveryOtherBufferFreedLeavesOnlyTheirHoles) {
  LockstepAllocator allocator(4, 64_KiB);
  std::vector<ByteRange> ranges;
  while (const auto range = allocator.allocate(1_KiB, 64, Lifetime::lasting)) {
    ranges.push_back(*range);
  }
  ASSERT_EQ(ranges.size(), 64u);
  for (std::size_t i = 0; i < ranges.size(); i += 2)
    allocator.free(ranges[i]);
  EXPECT_EQ(allocator.used_bytes(3), 32_KiB);
  EXPECT_EQ(allocator.largest_hole_bytes(3), 1_KiB);
  EXPECT_EQ(allocator.allocate(32_KiB, 64, Lifetime::lasting), std::nullopt);
  EXPECT_EQ(allocator.allocate(1_KiB + 1, 64, Lifetime::lasting), std::nullopt);
  EXPECT_EQ(allocator.allocate(1_KiB, 64, Lifetime::lasting), ranges[0]);
  for (std::size_t i = 1; i < ranges.size(); i += 2)
    allocator.free(ranges[i]);
  EXPECT_EQ(allocator.largest_hole_bytes(3), 63_KiB);
}

TEST(LockstepAllocator, SubmeshesSplitAndEqualStatesMerge) {
  LockstepAllocator allocator(8, 1_MiB);
  const std::vector<int> low = {0, 1, 2, 3};
  const std::vector<int> high = {4, 5, 6, 7};
  const auto a = allocator.allocate_on(low, 4_KiB, 64, Lifetime::lasting);
  EXPECT_EQ(allocator.class_count(), 2);
  const auto b = allocator.allocate_on(high, 4_KiB, 64, Lifetime::lasting);
  EXPECT_EQ(a, b);  // equal offsets, since the devices differ
  EXPECT_EQ(allocator.class_count(), 1);
  const auto all = allocator.allocate(64, 64, Lifetime::lasting);
  EXPECT_EQ(all->offset, 4_KiB);
  allocator.free_on(low, *a);
  EXPECT_EQ(allocator.class_count(), 2);
  EXPECT_EQ(allocator.used_bytes(0), 64);
  EXPECT_EQ(allocator.used_bytes(7), 4_KiB + 64);
  // What is free on some devices alone isn't free on all.
  EXPECT_EQ(allocator.allocate(64, 64, Lifetime::lasting)->offset, 4_KiB + 64);
  allocator.free_on(high, *b);
  EXPECT_EQ(allocator.class_count(), 1);
}

TEST(LockstepAllocator, PeaksStayWithTheirDevices) {
  LockstepAllocator allocator(2, 1_MiB);
  const auto big = allocator.allocate_on({0}, 512_KiB, 64, Lifetime::lasting);
  allocator.free_on({0}, *big);
  const auto small = allocator.allocate(1_KiB, 64, Lifetime::lasting);
  EXPECT_EQ(allocator.class_count(), 1);
  EXPECT_EQ(allocator.peak_bytes(0), 512_KiB);
  EXPECT_EQ(allocator.peak_bytes(1), 1_KiB);
  allocator.free(*small);
}

TEST(LockstepAllocator, AFailedSubmeshAllocationLeavesNoSplit) {
  LockstepAllocator allocator(4, 4_KiB);
  EXPECT_EQ(allocator.allocate_on({1, 2}, 4_KiB + 1, 64, Lifetime::lasting), std::nullopt);
  const auto most = allocator.allocate(3_KiB, 64, Lifetime::lasting);
  EXPECT_EQ(allocator.allocate_on({1, 2}, 2_KiB, 64, Lifetime::lasting), std::nullopt);
  EXPECT_EQ(allocator.class_count(), 1);
  allocator.free(*most);
}

TEST(LockstepAllocator, OnlyWhatWasAllocatedCanBeFreed) {
  LockstepAllocator allocator(2, 1_MiB);
  const auto range = allocator.allocate(128, 64, Lifetime::lasting);
  EXPECT_THROW(allocator.free({0, 64}), Error);
  EXPECT_THROW(allocator.free({64, 64}), Error);
  EXPECT_THROW(allocator.free_on({0}, *range), Error);
  EXPECT_EQ(allocator.used_bytes(0), 128);
  allocator.free_on({0, 1}, *range);  // the same set, told otherwise
  EXPECT_THROW(allocator.free(*range), Error);
  EXPECT_EQ(allocator.used_bytes(0), 0);
}

TEST(LockstepAllocator, RefusesWrongRequests) {
  LockstepAllocator allocator(2, 1_MiB);
  EXPECT_THROW(allocator.allocate(-1, 64, Lifetime::lasting), Error);
  EXPECT_THROW(allocator.allocate(1, 48, Lifetime::lasting), Error);
  EXPECT_THROW(allocator.allocate(1, 0, Lifetime::lasting), Error);
  EXPECT_THROW(allocator.allocate_on({}, 1, 64, Lifetime::lasting), Error);
  EXPECT_THROW(allocator.allocate_on({1, 0}, 1, 64, Lifetime::lasting), Error);
  EXPECT_THROW(allocator.allocate_on({0, 2}, 1, 64, Lifetime::lasting), Error);
  EXPECT_THROW(LockstepAllocator(0, 1), Error);
  EXPECT_THROW(LockstepAllocator(1, -1), Error);
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(allocator.allocate(kHuge, 64, Lifetime::lasting), std::nullopt);
  EXPECT_EQ(allocator.allocate(0, std::int64_t{1} << 62, Lifetime::temporary), std::nullopt);
}

TEST(LockstepAllocator, SteadyStateTakesNoHeapMemory) {
  LockstepAllocator allocator(16, 1_GiB);
  const std::vector<int> some = {2, 3, 7};
  const auto round = [&] {
    InlineVector<ByteRange, 8> lasting;
    for (int i = 0; i < 8; ++i) {
      lasting.push_back(*allocator.allocate(1000 * (i + 1), 64, Lifetime::lasting));
    }
    const auto part = allocator.allocate_on(some, 5000, 64, Lifetime::temporary);
    const auto work = allocator.allocate(100000, 4096, Lifetime::temporary);
    for (std::size_t i = 0; i < 8; i += 2)
      allocator.free(lasting[i]);
    allocator.free_on(some, *part);
    for (std::size_t i = 1; i < 8; i += 2)
      allocator.free(lasting[i]);
    allocator.free(*work);
  };
  round();
  round();
  const std::int64_t before = heap_allocations;
  for (int i = 0; i < 100; ++i)
    round();
  EXPECT_EQ(heap_allocations, before);
}

TEST(LockstepAllocator, ALastingRangeGoesBelowTemporaryOnesIfItCan) {
  LockstepAllocator allocator(2, 1000 * 64);
  const auto high = allocator.allocate(200 * 64, 64, Lifetime::temporary);
  const auto low = allocator.allocate(300 * 64, 64, Lifetime::temporary);
  allocator.free(*high);  // the smaller hole is above
  EXPECT_EQ(allocator.allocate(64, 64, Lifetime::lasting)->offset, 0);
  const auto rest = allocator.allocate(499 * 64, 64, Lifetime::lasting);
  EXPECT_EQ(rest->offset, 64);
  EXPECT_EQ(allocator.allocate(64, 64, Lifetime::lasting)->offset, high->offset)
      << "there is room nowhere else";
  EXPECT_EQ(low->offset, 500 * 64);
}

/// What the allocator must do, by keeping every unit of every device.
class Model {
 public:
  static constexpr std::int64_t kUnit = 64;

  Model(int devices, int units)
      : used_(static_cast<std::size_t>(devices),
              std::vector<bool>(static_cast<std::size_t>(units))),
        peaks_(static_cast<std::size_t>(devices)) {}

  std::optional<std::int64_t> find(const std::vector<int>& devices, std::int64_t bytes,
                                   std::int64_t alignment, Lifetime lifetime,
                                   std::int64_t lowest_temporary) const {
    std::vector<bool> taken(used_[0].size());
    for (const int d : devices) {
      for (std::size_t i = 0; i < taken.size(); ++i)
        taken[i] = taken[i] || row(d)[i];
    }
    const std::vector<ByteRange> holes = holes_of(taken);
    std::optional<std::int64_t> offset;
    if (lifetime == Lifetime::lasting) {
      offset = detail::best_fit(holes, bytes, alignment, lifetime, lowest_temporary);
    }
    return offset ? offset : detail::best_fit(holes, bytes, alignment, lifetime);
  }

  /// Marks units; false if one was marked alike before.
  bool mark(const std::vector<int>& devices, const ByteRange& range, bool used) {
    bool changed_all = true;
    for (const int d : devices) {
      auto& units = used_[static_cast<std::size_t>(d)];
      for (std::int64_t u = range.offset / kUnit; u < (range.offset + range.bytes) / kUnit; ++u) {
        changed_all = changed_all && units.at(static_cast<std::size_t>(u)) != used;
        units[static_cast<std::size_t>(u)] = used;
      }
      auto& peak = peaks_[static_cast<std::size_t>(d)];
      peak = std::max(peak, used_bytes(d));
    }
    return changed_all;
  }

  std::int64_t used_bytes(int device) const {
    return std::count(row(device).begin(), row(device).end(), true) * kUnit;
  }
  std::int64_t peak_bytes(int device) const { return peaks_[static_cast<std::size_t>(device)]; }
  std::int64_t largest_hole_bytes(int device) const {
    std::int64_t largest = 0;
    for (const ByteRange& hole : holes_of(row(device)))
      largest = std::max(largest, hole.bytes);
    return largest;
  }
  std::size_t class_count() const {
    return std::set<std::vector<bool>>(used_.begin(), used_.end()).size();
  }

 private:
  const std::vector<bool>& row(int device) const { return used_[static_cast<std::size_t>(device)]; }

  static std::vector<ByteRange> holes_of(const std::vector<bool>& taken) {
    std::vector<ByteRange> holes;
    for (std::size_t i = 0; i < taken.size(); ++i) {
      if (taken[i]) continue;
      const std::int64_t at = static_cast<std::int64_t>(i) * kUnit;
      if (i > 0 && !taken[i - 1]) {
        holes.back().bytes += kUnit;
      } else {
        holes.push_back({at, kUnit});
      }
    }
    return holes;
  }

  std::vector<std::vector<bool>> used_;
  std::vector<std::int64_t> peaks_;
};

struct Live {
  std::vector<int> devices;
  ByteRange range;
  Lifetime lifetime;
};

std::int64_t lowest_temporary(const std::vector<Live>& live) {
  std::int64_t lowest = detail::kAnywhere;
  for (const Live& each : live) {
    if (each.lifetime == Lifetime::temporary) lowest = std::min(lowest, each.range.offset);
  }
  return lowest;
}

class LockstepAllocatorProperty : public testing::TestWithParam<int> {};

TEST_P(LockstepAllocatorProperty, AgreesWithAModelOfEveryUnit) {
  const int device_count = GetParam();
  constexpr int kUnits = 96;
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto below = [&](int n) {
    return static_cast<int>(random() % static_cast<unsigned>(n));
  };

  LockstepAllocator allocator(device_count, kUnits * Model::kUnit);
  Model model(device_count, kUnits);
  std::vector<Live> live;
  for (int step = 0; step < 6000; ++step) {
    const bool full = below(2) == 0;
    std::vector<int> devices;
    for (int d = 0; d < device_count; ++d) {
      // Few sets, so that classes meet again; now and then any set.
      if (full || (step % 16 == 0 ? below(2) == 0 : d / 2 == step / 7 % 3)) devices.push_back(d);
    }
    if (devices.empty()) devices.push_back(0);
    // Fills up, then drains.
    if (below(10) < (step / 500 % 2 == 0 ? 6 : 3)) {
      const std::int64_t bytes = below(8) * Model::kUnit * (1 + below(2)) + below(2) * below(64);
      const std::int64_t alignment = std::int64_t{64} << below(4);
      const auto lifetime = below(2) == 0 ? Lifetime::lasting : Lifetime::temporary;
      const std::int64_t taken = bytes == 0 ? alignment : round_up(bytes, Model::kUnit);
      const auto expected = model.find(devices, taken, alignment, lifetime, lowest_temporary(live));
      const auto range = full ? allocator.allocate(bytes, alignment, lifetime)
                              : allocator.allocate_on(devices, bytes, alignment, lifetime);
      ASSERT_EQ(range.has_value(), expected.has_value()) << "step " << step;
      if (!range) continue;
      ASSERT_EQ(range->offset, *expected) << "step " << step;
      ASSERT_EQ(range->bytes, taken);
      ASSERT_EQ(range->offset % alignment, 0);
      ASSERT_TRUE(model.mark(devices, *range, true)) << "overlap in step " << step;
      live.push_back({devices, *range, lifetime});
    } else if (!live.empty()) {
      const auto which = static_cast<std::size_t>(below(static_cast<int>(live.size())));
      const Live gone = live[which];
      live[which] = live.back();
      live.pop_back();
      allocator.free_on(gone.devices, gone.range);
      ASSERT_TRUE(model.mark(gone.devices, gone.range, false));
    }
    ASSERT_EQ(static_cast<std::size_t>(allocator.class_count()), model.class_count())
        << "step " << step;
    for (int d = 0; d < device_count; ++d) {
      ASSERT_EQ(allocator.used_bytes(d), model.used_bytes(d)) << "step " << step;
      ASSERT_EQ(allocator.peak_bytes(d), model.peak_bytes(d)) << "step " << step;
      ASSERT_EQ(allocator.largest_hole_bytes(d), model.largest_hole_bytes(d)) << "step " << step;
    }
  }
  for (const Live& rest : live)
    allocator.free_on(rest.devices, rest.range);
  EXPECT_EQ(allocator.class_count(), 1);
  EXPECT_EQ(allocator.largest_hole_bytes(0), kUnits * Model::kUnit);
}

INSTANTIATE_TEST_SUITE_P(Devices, LockstepAllocatorProperty, testing::Values(1, 2, 5, 8));

}  // namespace
}  // namespace tilemesh
