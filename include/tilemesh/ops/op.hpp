#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilemesh/ops/attributes.hpp"
#include "tilemesh/ops/expression.hpp"
#include "tilemesh/types/dtype.hpp"
#include "tilemesh/types/layout.hpp"
#include "tilemesh/types/placement.hpp"
#include "tilemesh/types/shape.hpp"
#include "tilemesh/types/strided.hpp"

namespace tilemesh {

/// What an op knows of one operand. An optional input that isn't given has present = false.
struct OperandType {
  DType dtype = DType::f32;
  Shape shape;
  Layout layout;
  bool present = true;

  std::int64_t bytes() const { return present ? layout.bytes(shape, size_of(dtype)) : 0; }
  friend bool operator==(const OperandType&, const OperandType&) = default;
};

struct OpDef;
namespace ops {
class AttributeForm;
}  // namespace ops

/// One use of an op with everything decided but the data.
struct OpCall {
  const OpDef* def = nullptr;
  Attributes attributes;
  Expression epilogue;              ///< empty: none; for `map`: the op itself
  std::vector<OperandType> inputs;  ///< the op's own, then the epilogue's operands
  std::vector<OperandType> outputs;
};

/// Which factors index an operand's dims, in the manner of an einsum; kNone for a dim that can't be
/// cut. A factor that is on an input and no output is a reduction. One that is on dims of different
/// sizes (of a reshape that splits or merges dims) can be cut into parts that divide all of them.
struct Factors {
  static constexpr int kNone = -1;
  std::vector<std::vector<int>> inputs;
  std::vector<std::vector<int>> outputs;
  /// How the outputs' parts are put together when a reduction is cut; mean only for equal parts.
  ReduceOp reduction = ReduceOp::sum;
};

/// How parts of a result that isn't reduced yet go through an op, along an axis of a mesh.
enum class PartialRule : std::uint8_t {
  none,    ///< not at all
  moves,   ///< of any reduction, since elements only change places; all inputs are such parts
  sums,    ///< of a sum, since the op is linear in its inputs together; all inputs are such parts
  scales,  ///< of a sum, since the op is linear in each input; one input is such a part
};

/// One row of the table of ops. Shapes and dtypes are static; attributes never hold data.
struct OpDef {
  std::string_view name;  ///< "matmul"; part of the binary format
  int min_inputs = 1;
  int max_inputs = 1;  ///< -1: any number
  int min_outputs = 1;
  int max_outputs = 1;
  /// That must be wanted, from the first on; the others may be absent, whichever there are.
  int required_outputs = 1;

  /// Names every attribute that the op has, with its default and range
  /// (src/ops/attribute_form.hpp). All other functions of the row, kernels and passes read only
  /// what it made: complete, in range, axes counted from the front. Null: the op has none.
  void (*canonical)(ops::AttributeForm& form) = nullptr;

  /// Checks inputs, and gives shape and dtype of the outputs (layouts are rows).
  /// `call.outputs` is ignored, but for its size where an op has optional outputs (0 then means
  /// min_outputs). Throws invalid_argument with the values met and the values wanted.
  std::vector<OperandType> (*infer)(const OpCall& call) = nullptr;

  /// The op's placement rule for these shapes, without the epilogue: call factors_of.
  Factors (*factors)(const OpCall& call) = nullptr;

  /// The op's meaning, plain and slow: row-major in, row-major out, no epilogue. Pointers of absent
  /// inputs and outputs are null. Sizes are those of call.inputs and call.outputs.
  void (*reference)(const OpCall& call, std::span<const std::byte* const> inputs,
                    std::span<std::byte* const> outputs) = nullptr;

  /// True if a call may have an epilogue: what the verifier and targets read, and what kernels of
  /// the op may count on. `map` has none: its chain is the op itself.
  bool takes_epilogue = false;

  /// For elementwise ops: the function that a fused chain uses for it, if it has one
  /// (`ScalarFn`'s number; -1: none).
  int scalar_fn = -1;
  /// True if the output is the input's bytes in another shape (reshape, squeeze, identity).
  bool is_view = false;
  PartialRule partial = PartialRule::none;
};

/// All ops, sorted by name.
std::span<const OpDef> all_ops();
/// Null if there is none of that name.
const OpDef* find_op(std::string_view name);
/// Throws unsupported if there is none of that name.
const OpDef& get_op(std::string_view name);

/// Brings the call's attributes into the op's canonical form; a second time changes nothing. The
/// inputs must be there. Throws invalid_argument for a missing, unknown or impossible attribute.
void canonicalise(OpCall& call);

/// The most elements that a tensor may have, zero sizes counted as one: far above what any machine
/// holds, and so low that no product with another small number overflows.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 40;
/// Throws invalid_argument for a shape of more.
void check_element_count(const Shape& shape);

/// Checks the number of inputs, canonicalises, runs `infer`, checks which outputs are wanted and
/// how large they are, and the epilogue with its operands; fills call.outputs with row-major types.
/// Errors begin with the op's name.
void infer_outputs(OpCall& call);

/// The placement rule of the whole call. The epilogue's operands follow the output that they are
/// broadcast to; a call with an epilogue has no reductions, since a chain doesn't distribute over
/// sums.
Factors factors_of(const OpCall& call);
/// True if the factor can be cut into `parts` equal ones (the last may be shorter where all dims
/// that it indexes have the same size).
bool can_cut(const OpCall& call, const Factors& factors, int factor, std::int64_t parts);

/// An elementwise call as a step of a chain: its function and parameters (arguments are left at
/// their defaults). Empty if the op has no such function.
std::optional<ExpressionStep> scalar_step(const OpCall& call);

/// The whole call on operands in any non-opaque layout, epilogue included: unpacks, runs the
/// reference, applies the chain, packs. The last entry of every kernel list.
void run_reference(const OpCall& call, std::span<const std::byte* const> inputs,
                   std::span<std::byte* const> outputs);

/// Numpy-style broadcast of two shapes; throws invalid_argument naming both.
Shape broadcast(const Shape& a, const Shape& b);

/// "matmul(f32[2,3], f32[3,4]) -> f32[2,4]", for messages and `inspect`.
std::string to_string(const OpCall& call);

}  // namespace tilemesh
