#include "tilemesh/device/step.hpp"

#include <utility>

#include "tilemesh/base/error.hpp"

namespace tilemesh {

void check_jumps(std::span<const DeviceStep> steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const DeviceStep& step = steps[i];
    switch (step.kind) {
      case DeviceStep::Kind::jump_if_false:
        TILEMESH_CHECK(!step.operands.empty(), "a conditional jump without a condition");
        [[fallthrough]];
      case DeviceStep::Kind::jump:
        TILEMESH_CHECK(
            std::cmp_greater(step.target, i) && std::cmp_less_equal(step.target, steps.size()),
            "a step jumps backwards or out of its program");
        break;
      case DeviceStep::Kind::repeat:
        TILEMESH_CHECK(
            step.target >= 0 && std::cmp_less_equal(step.target, i) && step.operands.size() == 3,
            "a loop goes forward, or hasn't its three operands");
        break;
      case DeviceStep::Kind::call:
      case DeviceStep::Kind::fail:
      case DeviceStep::Kind::exchange: break;
    }
  }
}

}  // namespace tilemesh
