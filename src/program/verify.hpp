#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilemesh/base/error.hpp"
#include "tilemesh/program/program.hpp"

namespace tilemesh {

/// A program under verification, and what its values have been found to be.
struct ProgramCheck {
  const Program& program;
  std::uint64_t constants_bytes = 0;
  std::vector<std::int64_t> value_bytes;  ///< per device; filled by check_values
  std::vector<bool> writable_inputs;      ///< that an output takes over; the same
};

/// Names, mesh, workspaces, specs and storage of values, inputs, outputs, constants.
void check_values(ProgramCheck& check);
/// Checks which values the ops name, and brings their attributes into canonical form. After
/// check_values.
void canonicalise_ops(Program& program);
/// Every op: its name, operands, shapes and dtypes, jumps, and where it writes. After
/// canonicalise_ops.
void check_ops(const ProgramCheck& check);

/// The call of op `i` on whole tensors, in rows.
OpCall global_call(const Program& program, std::size_t i);

/// That the placements of a call's values agree with its op's rule. After its shapes were checked.
void check_placements(const Program& program, std::size_t op);
/// The same for an op that takes its input to another placement, and for all else about it.
void check_reshard(const ProgramCheck& check, std::size_t op);

/// That a call writes only where it may, and not over what it still reads.
void check_overlaps(const ProgramCheck& check, const ProgramOp& op);

/// That every loop ends: that loops nest, and nothing meddles with their counters. After check_ops.
void check_loops(const ProgramCheck& check);

/// That no op reads what was not written, or was overwritten, on some way to it. After check_ops.
void check_flow(const ProgramCheck& check);

/// True for a view op whose output has the storage of its input: nothing is done. Throws
/// invalid_file if the bytes would then have to be another layout's.
bool is_free_view(const ProgramCheck& check, const ProgramOp& op);

/// Throws invalid_file.
[[noreturn]] void broken(const std::string& what);
/// "value 3 \"conv_1\"", for messages.
std::string describe(const Program& program, std::uint32_t value);
/// "op 7 \"conv_1\" (conv)"
std::string describe_op(const Program& program, std::size_t op);

/// A value's bytes within its buffer: an input, an output, a constant or a workspace.
struct Footprint {
  std::uint64_t buffer = 0;  ///< equal for two values in the same buffer
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::uint32_t value = 0;

  bool empty() const { return begin == end; }
  friend auto operator<=>(const Footprint&, const Footprint&) = default;
};
Footprint range_of(const ProgramCheck& check, std::uint32_t value);

}  // namespace tilemesh
