#include "compiler/memory_plan.hpp"

#include <algorithm>
#include <numeric>

#include "tilemesh/base/math.hpp"

namespace tilemesh {
namespace {

constexpr std::int64_t kAlignment = 64;

struct Taken {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Start of the tightest gap of `bytes` between ranges sorted by begin; past them all if none fits.
std::int64_t best_fit(const std::vector<Taken>& taken, std::int64_t bytes) {
  std::int64_t best = -1;
  std::int64_t best_size = 0;
  std::int64_t end = 0;
  for (const Taken& range : taken) {
    const std::int64_t gap = range.begin - end;
    if (gap >= bytes && (best < 0 || gap < best_size)) {
      best = end;
      best_size = gap;
    }
    end = std::max(end, range.end);
  }
  return best < 0 ? end : best;
}

}  // namespace

WorkspacePlan plan_memory(std::span<const ValueLifetime> lifetimes) {
  WorkspacePlan plan;
  plan.offsets.assign(lifetimes.size(), 0);
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });

  std::vector<std::size_t> placed;  // sorted by offset
  std::vector<Taken> taken;
  for (const std::size_t i : order) {
    const ValueLifetime& life = lifetimes[i];
    if (life.bytes == 0) continue;
    const std::int64_t bytes = round_up(life.bytes, kAlignment);
    taken.clear();
    for (const std::size_t j : placed) {
      const ValueLifetime& other = lifetimes[j];
      if (other.first <= life.last && life.first <= other.last) {
        taken.push_back({plan.offsets[j], plan.offsets[j] + round_up(other.bytes, kAlignment)});
      }
    }
    plan.offsets[i] = best_fit(taken, bytes);
    plan.bytes = std::max(plan.bytes, checked_add(plan.offsets[i], bytes));
    const auto at = std::ranges::upper_bound(placed, plan.offsets[i], {},
                                             [&](std::size_t j) { return plan.offsets[j]; });
    placed.insert(at, i);
  }
  return plan;
}

}  // namespace tilemesh
