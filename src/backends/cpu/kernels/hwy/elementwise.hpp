#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tilemesh/ops/kernel.hpp"

#include "chunk.hpp"

namespace tilemesh::cpu::highway {

/// A program reads no more operands than this.
inline constexpr std::size_t kMaxOperands = 16;

/// Where an instruction reads or writes: an operand, an intermediate value, or the output.
struct ValueRef {
  enum class Kind : std::uint8_t { operand, intermediate, output };
  Kind kind = Kind::operand;
  int index = 0;
  friend bool operator==(const ValueRef&, const ValueRef&) = default;
};

/// One chunk function of an elementwise program.
struct Instruction {
  ChunkFn fn = nullptr;
  int inputs = 1;
  std::array<ValueRef, 3> in{};
  ValueRef out{};
  float alpha = 0;
  float beta = 0;
  double cost = 1;
  bool zero_to_zero = false;  ///< all inputs zero give zero
};

/// A straight list of instructions; the last writes the output. Intermediate values are numbered
/// in the order in which they are written.
struct ElementwiseProgram {
  std::vector<OperandType> operands;
  std::vector<std::size_t> places;  ///< of the operands in Kernel::run's list
  OperandType output;
  std::size_t output_place = 0;
  std::vector<Instruction> instructions;
  bool may_throw = false;
};

/// A kernel that runs the program over chunks that stay in the first-level cache. Operands are
/// broadcast to the output, in any non-opaque layouts; the output's padding becomes zero.
std::unique_ptr<Kernel> make_elementwise(ElementwiseProgram program, std::string name,
                                         int device_threads);

}  // namespace tilemesh::cpu::highway
