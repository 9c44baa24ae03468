#pragma once

#include <cstddef>
#include <cstdint>

namespace tilemesh {

// How the loops of a program go on and end: one rule for all that run programs.

/// The end of a loop's iteration. `operands`: its counter (i64), which grows by one, the trip count
/// (i64) and a condition (bool), null where there is none. True if there is another iteration.
/// Throws kernel_failed if that would be one more than `limit`, or the counter isn't a count.
bool repeats(std::byte* const* operands, std::int64_t limit);

/// Counts what a program does again, so that none runs for ever.
class RepeatBudget {
 public:
  /// Iterations that one run may have in all its loops.
  static constexpr std::int64_t kMost = std::int64_t{1} << 24;
  void refill() { left_ = kMost; }
  /// Throws kernel_failed when there is nothing left.
  void spend();

 private:
  std::int64_t left_ = kMost;
};

}  // namespace tilemesh
