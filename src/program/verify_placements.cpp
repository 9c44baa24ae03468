// Whether the placements of an op's values agree with the op's own rule, axis by axis of the mesh.

#include <algorithm>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "tilemesh/ops/op.hpp"
#include "tilemesh/types/redistribution.hpp"

#include "verify.hpp"

namespace tilemesh {
namespace {

using Kind = Placement::Kind;
using Operands = std::vector<std::uint32_t>;
using OperandFactors = std::vector<std::vector<int>>;

bool is_there(const Program& program, std::uint32_t value) {
  return value != ProgramOp::kAbsent && program.values[value].storage.kind != Storage::Kind::none;
}

bool any_placed(const Program& program, const Operands& values) {
  return std::ranges::any_of(values, [&](std::uint32_t value) {
    return is_there(program, value) && !program.values[value].spec.is_replicated();
  });
}

/// The op on whole tensors, its outputs as its own rule gives them.
OpCall inferred_call(const Program& program, std::size_t index) {
  OpCall call = global_call(program, index);
  const std::vector<OperandType> stated = call.outputs;
  infer_outputs(call);
  for (std::size_t i = 0; i < stated.size(); ++i) {
    if (stated[i].present && !(stated[i].shape == call.outputs.at(i).shape)) {
      broken(fmt::format("its output {} is {} as a whole, but should be {}", i,
                         stated[i].shape.to_string(), call.outputs[i].shape.to_string()));
    }
  }
  return call;
}

/// Whether some devices hold fewer indices of a dim than others.
bool is_cut_unevenly(const TensorSpec& spec, int dim) {
  std::int64_t parts = 1;
  for (int axis = 0; axis < spec.mesh.axes(); ++axis) {
    const Placement along = spec.placement(axis);
    if (along.is_shard() && along.dim() == dim) parts *= spec.mesh[axis];
  }
  return spec.shape[dim] % parts != 0;
}

/// One axis of the mesh in one op: which factor it cuts, and what follows for every operand.
class AxisCheck {
 public:
  AxisCheck(const Program& program, const ProgramOp& op, const Factors& factors, int axis)
      : program_(program), op_(op), factors_(factors), axis_(axis) {}

  void run() {
    find_factor(op_.inputs, factors_.inputs);
    const bool reduces = factor_.has_value();
    find_factor(op_.outputs, factors_.outputs);
    if (partial_) {
      check_passed_through();
      return;
    }
    if (factor_) {
      check_cut(op_.inputs, factors_.inputs, "input");
    }
    const bool in_an_output = std::ranges::any_of(
        factors_.outputs, [&](const auto& dims) { return factor_ && has_factor(dims); });
    if (factor_ && in_an_output) {
      check_cut(op_.outputs, factors_.outputs, "output");
    } else {
      if (reduces && factors_.reduction == ReduceOp::mean) check_even();
      check_outputs(reduces ? partial(factors_.reduction) : replicate());
    }
  }

 private:
  const TensorSpec& spec(std::uint32_t value) const { return program_.values[value].spec; }
  bool has_factor(const std::vector<int>& dims) const {
    return std::ranges::find(dims, *factor_) != dims.end();
  }

  [[noreturn]] void refuse(std::uint32_t value, std::string_view why) const {
    broken(fmt::format("{} is {} along axis {} of the mesh, {}", describe(program_, value),
                       spec(value).placement(axis_).to_string(), axis_, why));
  }

  void find_factor(const Operands& values, const OperandFactors& factors) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!is_there(program_, values[i])) continue;
      const Placement placement = spec(values[i]).placement(axis_);
      if (placement.kind() == Kind::partial && &values == &op_.inputs) {
        if (partial_.value_or(placement) != placement) {
          refuse(values[i], "but another input is reduced in another way");
        }
        partial_ = placement;
      }
      if (!placement.is_shard()) continue;
      const int factor = factors.at(i).at(static_cast<std::size_t>(placement.dim()));
      if (factor == Factors::kNone) refuse(values[i], "but the op needs that dim whole");
      if (factor_.value_or(factor) != factor) {
        refuse(values[i], "but other values of the op are cut in another way");
      }
      factor_ = factor;
    }
  }

  // Every operand that the factor indexes is cut along it, all others are whole.
  void check_cut(const Operands& values, const OperandFactors& factors,
                 std::string_view what) const {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!is_there(program_, values[i])) continue;
      const Placement placement = spec(values[i]).placement(axis_);
      const bool wants_cut = has_factor(factors.at(i));
      if (!wants_cut && &values == &op_.outputs) {
        refuse(values[i], "but another output is cut there and this one isn't reduced");
      }
      if (wants_cut != placement.is_shard() || (!wants_cut && !placement.is_replicate())) {
        refuse(values[i], fmt::format("but as its {} {} it should be {} there", what, i,
                                      wants_cut ? "cut" : "replicated"));
      }
    }
  }

  // The mean of means is the mean of all only if all count alike.
  void check_even() const {
    for (const std::uint32_t value : op_.inputs) {
      if (!is_there(program_, value)) continue;
      const Placement along = spec(value).placement(axis_);
      if (along.is_shard() && is_cut_unevenly(spec(value), along.dim())) {
        refuse(value, "and a mean needs shards of equal size");
      }
    }
  }

  void check_outputs(const Placement& wanted) const {
    for (const std::uint32_t value : op_.outputs) {
      if (is_there(program_, value) && spec(value).placement(axis_) != wanted) {
        refuse(value, fmt::format("but by the op's rule it is {}", wanted.to_string()));
      }
    }
  }

  // Parts go through an op as its rule allows, and only if nothing is done to its result.
  void check_passed_through() const {
    if (factor_) {
      broken(fmt::format("along axis {} of the mesh it has both parts of a reduction and shards",
                         axis_));
    }
    std::size_t parts = 0;
    std::size_t given = 0;
    for (const std::uint32_t value : op_.inputs) {
      if (!is_there(program_, value)) continue;
      ++given;
      if (spec(value).placement(axis_).kind() == Kind::partial) ++parts;
    }
    const PartialRule rule = op_.epilogue.empty() ? get_op(op_.op).partial : PartialRule::none;
    const bool sum = partial_->op() == ReduceOp::sum;
    const bool passes = (rule == PartialRule::moves && parts == given) ||
                        (rule == PartialRule::sums && sum && parts == given) ||
                        (rule == PartialRule::scales && sum && parts == 1);
    if (!passes) {
      broken(
          fmt::format("along axis {} of the mesh {} of its {} inputs are {}, which have to be "
                      "reduced before this op",
                      axis_, parts, given, partial_->to_string()));
    }
    check_outputs(*partial_);
  }

  const Program& program_;
  const ProgramOp& op_;
  const Factors& factors_;
  int axis_;
  std::optional<int> factor_;
  std::optional<Placement> partial_;
};

/// Whether elements keep their places, each being reduced at most.
bool only_reduces(const TensorSpec& from, const TensorSpec& to) {
  if (!(from.layout == to.layout) || from.layout.is_opaque()) return false;
  for (int axis = 0; axis < from.mesh.axes(); ++axis) {
    const Placement before = from.placement(axis);
    const Placement after = to.placement(axis);
    if (before != after && (before.kind() != Kind::partial || !after.is_replicate())) return false;
  }
  return true;
}

}  // namespace

void check_placements(const Program& program, std::size_t index) {
  const ProgramOp& op = program.ops[index];
  if (!any_placed(program, op.inputs) && !any_placed(program, op.outputs)) return;
  const Factors factors = factors_of(inferred_call(program, index));
  for (int axis = 0; axis < program.mesh.axes(); ++axis) {
    if (program.mesh[axis] > 1) AxisCheck(program, op, factors, axis).run();
  }
}

void check_reshard(const ProgramCheck& check, std::size_t index) {
  const Program& program = check.program;
  const ProgramOp& op = program.ops[index];
  const bool is_pair = op.inputs.size() == 1 && op.outputs.size() == 1 &&
                       is_there(program, op.inputs[0]) && is_there(program, op.outputs[0]);
  if (!is_pair || !op.epilogue.empty()) {
    broken("it takes one value to one other, without an epilogue");
  }
  const TensorSpec& from = program.values[op.inputs[0]].spec;
  const TensorSpec& to = program.values[op.outputs[0]].spec;
  check_redistribution(from, to);
  bool reduces = false;
  for (int axis = 0; axis < from.mesh.axes(); ++axis) {
    reduces = reduces || (from.placement(axis).kind() == Kind::partial &&
                          to.placement(axis).kind() != Kind::partial);
  }
  if (reduces) static_cast<void>(reduction_between(from, to));  // throws unless there is just one
  if (only_reduces(from, to)) {
    check_overlaps(check, op);
    return;
  }
  if (!from.layout.is_rows() || !to.layout.is_rows()) {
    broken(
        fmt::format("it takes {} to {}: both have to be in rows, unless parts are reduced and "
                    "nothing else changes",
                    from.to_string(), to.to_string()));
  }
  const Footprint source = range_of(check, op.inputs[0]);
  const Footprint target = range_of(check, op.outputs[0]);
  if (source.buffer == target.buffer && source.begin < target.end && target.begin < source.end) {
    broken(fmt::format("it writes {} over {}, which is still read",
                       describe(program, op.outputs[0]), describe(program, op.inputs[0])));
  }
  check_overlaps(check, op);
}

}  // namespace tilemesh
