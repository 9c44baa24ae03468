#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tilemesh/device/communicator.hpp"
#include "tilemesh/ops/op.hpp"
#include "tilemesh/types/tensor_spec.hpp"

namespace tilemesh {

/// A byte in one of a device's arenas; on lock-step devices the same on each.
struct DeviceAddress {
  Space space = Space::dram;
  std::int64_t offset = 0;
  friend bool operator==(const DeviceAddress&, const DeviceAddress&) = default;
};

/// Where a step finds an operand: `offset` bytes into base number `base`, which each launch binds
/// to an address; or a fixed address, known when the program is prepared (constants, workspace).
struct StepOperand {
  static constexpr int kAbsent = -1;
  static constexpr int kFixed = -2;

  int base = kAbsent;
  std::int64_t offset = 0;    ///< kFixed: into the arena of `space`
  Space space = Space::dram;  ///< only for kFixed
};

/// One entry of a device program: an op, or a jump within the list.
struct DeviceStep {
  enum class Kind : std::uint8_t {
    call,
    jump,           ///< to `target`
    jump_if_false,  ///< to `target` if operand 0, one bool, is false
    fail,           ///< the program fails with `message`
    exchange,       ///< a collective, from operand 0 to operand 1
    repeat,         ///< back to `target` or on: see ops/repeat.hpp
  };
  Kind kind = Kind::call;
  OpCall call;                        ///< on the device's own shard
  ExchangePart exchange;              ///< only for `exchange`
  std::vector<StepOperand> operands;  ///< inputs, then outputs
  int target = 0;                     ///< of a jump > own index; the list's size ends the program;
                                      ///< of a repeat <= own index
  std::int64_t limit = 0;             ///< of a repeat: the most iterations
  std::string name;                   ///< for errors: "op 7 \"matmul_3\""
  std::string message;
};

/// Throws internal if a jump among `steps` leads where none may.
void check_jumps(std::span<const DeviceStep> steps);

}  // namespace tilemesh
