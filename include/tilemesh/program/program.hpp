#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilemesh/ops/op.hpp"
#include "tilemesh/types/tensor_spec.hpp"

namespace tilemesh {

enum class InputKind : std::uint8_t {
  activation = 0,  ///< new in every run
  parameter = 1,   ///< made resident once
  state = 2,       ///< goes in, comes out changed, in place
};
std::string_view to_string(InputKind kind);

/// Where a value's shard lies when the program runs.
struct Storage {
  enum class Kind : std::uint8_t {
    input = 0,      ///< in the buffer of input `index`
    output = 1,     ///< in the buffer of output `index`
    constant = 2,   ///< constant `index`
    workspace = 3,  ///< `offset` bytes into the workspace of the spec's space
    none = 4,       ///< an absent optional operand
  };
  Kind kind = Kind::none;
  std::uint32_t index = 0;
  std::int64_t offset = 0;
  friend bool operator==(const Storage&, const Storage&) = default;
};

/// A value of the program. Several values may share storage (views).
struct ProgramValue {
  std::string name;  ///< for messages and `inspect`
  TensorSpec spec;
  Storage storage;
  std::string reason = {};  ///< why it lies on the mesh as it does; informative
  friend bool operator==(const ProgramValue&, const ProgramValue&) = default;
};

struct ProgramInput {
  std::string name;
  std::uint32_t value = 0;
  InputKind kind = InputKind::activation;
  friend bool operator==(const ProgramInput&, const ProgramInput&) = default;
};

struct ProgramOutput {
  std::string name;
  std::uint32_t value = 0;
  std::int32_t alias = -1;  ///< the input whose storage it takes over (its value lies there), or -1
  friend bool operator==(const ProgramOutput&, const ProgramOutput&) = default;
};

/// A constant's bytes in the constants section, already in its value's layout: one shard for each
/// coordinate along the axes that cut the value, in row-major order of those coordinates, each of
/// the value's bytes per device with zeros for padding.
struct ProgramConstant {
  std::uint32_t value = 0;
  std::uint64_t offset = 0;  ///< into the constants section, a multiple of 64
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;  ///< of the bytes, so that equal constants are resident once
  friend bool operator==(const ProgramConstant&, const ProgramConstant&) = default;
};

/// One op, a jump, or the end of a loop; in order of execution.
///
/// A `repeat` has three inputs: its counter (one i64 on all devices, which nothing else in the loop
/// writes), the trip count (one i64) and a condition (one bool), each kAbsent if there is none. It
/// adds one to the counter, and goes back to `target` while the counter is below the trip count and
/// the condition holds. Loops nest, and no jump leads into or out of one.
struct ProgramOp {
  enum class Kind : std::uint8_t { call = 0, jump = 1, jump_if_false = 2, fail = 3, repeat = 4 };
  static constexpr std::uint32_t kAbsent = 0xffffffff;

  Kind kind = Kind::call;
  std::string op;  ///< name in the table of ops
  Attributes attributes;
  Expression epilogue;
  std::vector<std::uint32_t> inputs;  ///< values; kAbsent: not given. jump_if_false: the condition
  std::vector<std::uint32_t> outputs;
  std::uint32_t target = 0;    ///< of a jump: an op after this one, or the number of ops;
                               ///< of a repeat: the first op of its loop
  std::int64_t limit = 0;      ///< of a repeat: to want more iterations is an error
  std::string name;            ///< in the source model
  std::string message;         ///< of `fail`; of a reshard why it is there
  std::string implementation;  ///< that the compiler planned with; informative
  friend bool operator==(const ProgramOp&, const ProgramOp&) = default;
};

/// A compiled function with everything decided. Plain data; immutable once in a Binary.
struct Program {
  std::string name;
  MeshShape mesh;
  std::vector<ProgramValue> values;
  std::vector<ProgramInput> inputs;
  std::vector<ProgramOutput> outputs;
  std::vector<ProgramConstant> constants;
  std::vector<ProgramOp> ops;
  std::int64_t dram_workspace_bytes = 0;  ///< per device
  std::int64_t l1_workspace_bytes = 0;
  friend bool operator==(const Program&, const Program&) = default;

  const TensorSpec& input_spec(std::size_t i) const { return values[inputs[i].value].spec; }
  const TensorSpec& output_spec(std::size_t i) const { return values[outputs[i].value].spec; }
};

/// How many different shards a value has: one for each coordinate along the axes that cut it.
int shard_count(const TensorSpec& spec);
/// Which of them the device at `coord` holds, numbered in row-major order of those coordinates.
int shard_index(const TensorSpec& spec, const MeshCoord& coord);

/// The op that takes a value from one placement to another: its input and output have the same
/// shape and dtype, and all devices of the mesh take part.
bool is_reshard(const ProgramOp& op);
/// What the elements beyond a shard's extent become: neutral in this reduction. It is the integer
/// attribute "fill", a ReduceOp. Requires is_reshard.
ReduceOp reshard_fill(const ProgramOp& op);

/// Checks the meaning: every index, size, offset, overlap, shape, dtype and placement. Throws
/// invalid_file naming program, op and value. After this nothing is checked again on the hot path.
///
/// Attributes are brought into their ops' canonical form first: files of older versions may lack
/// some. The checks, kernels and all else that works with the program read only that form, so what
/// is used is what this gives back.
Program verify(Program program, std::uint64_t constants_bytes);

/// The call of op `i` on each device's own shard. For a reshard, whose input and output may differ
/// in their shards, it is of use for messages alone.
OpCall shard_call(const Program& program, std::size_t i);

}  // namespace tilemesh
