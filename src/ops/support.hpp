#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilemesh/ops/op.hpp"

/// What infer and factors functions share. Errors don't name the op: infer_outputs puts it first.
namespace tilemesh::ops {

using Inputs = std::span<const std::byte* const>;
using Outputs = std::span<std::byte* const>;

/// Sets of dtypes that an operand may have.
enum class Types { any, number, real, integer, index, boolean };

inline OperandType rows(DType dtype, const Shape& shape) {
  return {.dtype = dtype, .shape = shape, .layout = {}, .present = true};
}

bool has_input(const OpCall& call, std::size_t index);
/// The number of the op's own inputs that the call has: without the epilogue's operands.
std::size_t own_input_count(const OpCall& call);
/// How many outputs the caller wants; call.outputs empty means the minimum.
std::size_t wanted_outputs(const OpCall& call);
/// True if the output is there to be written.
bool has_output(const OpCall& call, Outputs outputs, std::size_t index);

/// Throws invalid_argument, with both, if input `index` has a dtype outside the set.
void require_type(const OpCall& call, std::size_t index, Types types);
/// Throws if two inputs have different dtypes.
void require_same_type(const OpCall& call, std::size_t a, std::size_t b);
/// Throws unless input `index` has this rank (if `at_least`: this rank or more).
void require_rank(const OpCall& call, std::size_t index, int rank, bool at_least = false);
/// Throws unless input `index` has this shape; `why` says where the shape comes from.
void require_shape(const OpCall& call, std::size_t index, const Shape& shape, std::string_view why);
/// Throws unless input `index` broadcasts to `target`.
void require_broadcast(const OpCall& call, std::size_t index, const Shape& target);

/// `axis` counted from the front; throws if it is outside [-rank, rank).
int normal_axis(std::int64_t axis, int rank, std::string_view what = "axis");
/// A shape seen as [outer, size, inner] around one dim.
struct AxisView {
  std::int64_t outer = 1, size = 1, inner = 1;
};
AxisView around(const Shape& shape, int axis);

/// Steps a row-major index; false after the last one. `index` starts as zeros; the shape isn't
/// empty.
bool next_index(Dims& index, const Shape& shape);
/// Zeros, one per dim.
Dims zero_index(const Shape& shape);
/// Strides that read a row-major tensor of `shape` as one of `target`, broadcast: 0 where repeated.
Dims broadcast_strides(const Shape& shape, const Shape& target);
std::int64_t dot(const Dims& index, const Dims& strides);

/// Builds a placement rule: every dim is kNone until a factor is put on it.
class FactorBuilder {
 public:
  explicit FactorBuilder(const OpCall& call);

  int add() { return next_++; }
  /// Nothing happens for an absent operand.
  void input(std::size_t operand, int dim, int factor);
  void output(std::size_t operand, int dim, int factor);
  /// A new factor on a dim of input 0 and a dim of output 0.
  void share(int input_dim, int output_dim);
  void reduction(ReduceOp op) { factors_.reduction = op; }
  Factors build() { return std::move(factors_); }

 private:
  Factors factors_;
  int next_ = 0;
};

/// Every dim of output 0, shared with the inputs that aren't broadcast along it.
Factors broadcast_factors(const OpCall& call);
/// Every dim of input 0, shared with all outputs of the same rank, but for `axis`.
Factors all_but_axis(const OpCall& call, int axis);
/// No dim can be cut.
Factors no_factors(const OpCall& call);

}  // namespace tilemesh::ops
