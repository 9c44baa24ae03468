#include "tilemesh/ops/repeat.hpp"

#include <cstring>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh {

bool repeats(std::byte* const* operands, std::int64_t limit) {
  std::int64_t counter = 0;
  std::memcpy(&counter, operands[0], sizeof(counter));
  if (counter < 0 || counter >= limit) {
    throw Error(ErrorCode::kernel_failed,
                fmt::format("iteration {} is outside the loop's limit of {}", counter, limit));
  }
  ++counter;
  std::memcpy(operands[0], &counter, sizeof(counter));
  if (operands[1] != nullptr) {
    std::int64_t trips = 0;
    std::memcpy(&trips, operands[1], sizeof(trips));
    if (counter >= trips) return false;
  }
  if (operands[2] != nullptr && *operands[2] == std::byte{0}) return false;
  if (counter < limit) return true;
  throw Error(
      ErrorCode::kernel_failed,
      fmt::format("the loop wants more than {} iterations: compile it with a larger bound", limit));
}

void RepeatBudget::spend() {
  if (left_-- > 0) return;
  throw Error(ErrorCode::kernel_failed,
              fmt::format("the program's loops want more than {} iterations in one run", kMost));
}

}  // namespace tilemesh
