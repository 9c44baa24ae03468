#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilemesh/program/program.hpp"
#include "tilemesh/runtime/executable.hpp"

namespace tilemesh {

/// What one part of a program takes on each device, as the ledger will name it.
struct PlannedHolder {
  enum class Kind : std::uint8_t { constant, input, output, workspace, scratch };
  std::string label;  ///< "mlp.w"
  Kind kind = Kind::constant;
  std::int64_t bytes = 0;  ///< per device, rounded as the allocator rounds
};
std::string_view to_string(PlannedHolder::Kind kind);

/// What a device needs in one memory space while programs run. All of it is held at once, so the
/// sum is the peak.
struct SpacePlan {
  Space space = Space::dram;
  std::int64_t constants_bytes = 0;  ///< equal ones once
  std::int64_t inputs_bytes = 0;
  std::int64_t outputs_bytes = 0;  ///< those that take over no input
  std::int64_t workspace_bytes = 0;
  std::int64_t scratch_bytes = 0;      ///< of kernels, beside the arena; known once prepared
  std::int64_t available_bytes = 0;    ///< of an arena that nobody else uses
  std::vector<PlannedHolder> holders;  ///< largest first

  std::int64_t peak_bytes() const;
  bool fits() const { return peak_bytes() <= available_bytes; }
};

/// Sizes of the arenas of each device.
struct ArenaSizes {
  std::int64_t dram_bytes = 0;
  std::int64_t l1_bytes = 0;
};

/// Whether programs fit on devices, said before anything runs. A value.
struct MemoryPlan {
  std::vector<SpacePlan> spaces;  ///< dram, l1

  bool fits() const;
  /// Per space that doesn't fit: what is asked, what there is, and the five largest holders. Empty
  /// if all fits.
  std::string shortage() const;
};

/// What a program takes once it is prepared and its arguments lie on the devices: constants and
/// workspace from prepare, inputs and outputs of one run. Host arguments count as their copies in
/// dram. Throws invalid_argument if the sizes overflow 64 bits.
MemoryPlan plan_memory(const Program& program, const ArenaSizes& arenas);
/// The same of several programs that are prepared at once, each with arguments of its own.
MemoryPlan plan_memory(std::span<const Program> programs, const ArenaSizes& arenas);
/// The same of a prepared program on the devices of its mesh, with the memory that its kernels use
/// beside its values.
MemoryPlan plan_memory(const Executable& executable);

}  // namespace tilemesh
