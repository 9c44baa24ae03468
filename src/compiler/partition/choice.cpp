#include "compiler/partition/choice.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "tilemesh/base/error.hpp"
#include "tilemesh/types/redistribution.hpp"

namespace tilemesh::partition {

namespace {

using Kind = AxisChoice::Kind;

// A byte moved between devices costs about as much as this many touched by an op, or as this many
// multiplications: memory at some 20 GB/s, a core at some 200 GFLOP/s.
constexpr double kTouchedByte = 0.5;
constexpr double kFlop = 0.05;

bool is_partial(const Placement& placement) {
  return placement.kind() == Placement::Kind::partial;
}

// Ops that fail on some integers: what lies beyond an uneven shard must not reach them.
constexpr std::array<std::string_view, 3> kRefuseIntegers = {"div", "mod", "pow"};
// Ops that take zero as an index wherever there is something to index.
constexpr std::array<std::string_view, 5> kReadIndices = {"gather", "gather_elements", "gather_nd",
                                                          "scatter_elements", "scatter_nd"};
// Ops whose integers are lengths, for which there is no harmless one.
constexpr std::array<std::string_view, 4> kReadLengths = {"lstm", "gru", "rnn", "reverse_sequence"};

template <std::size_t kCount>
bool is_among(const std::array<std::string_view, kCount>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

class Chooser {
 public:
  Chooser(const GraphNode& node, const ChoiceContext& context)
      : node_(node),
        context_(context),
        call_(context.graph.call_of(node)),
        rule_(context.wishes.factors(node)),
        axes_(context.mesh.axes()) {
    for (const GraphValueId id : node.inputs) {
      now_.push_back(id == kNoValue ? Placements() : context.placement(id));
    }
  }

  NodePlan run() {
    for (int axis = 0; axis < axes_; ++axis)
      candidates_.push_back(candidates(axis));
    choice_.resize(static_cast<std::size_t>(axes_));
    visit(0);
    TILEMESH_CHECK(best_cost_ < std::numeric_limits<double>::infinity(),
                   "an op can't even run on whole operands");
    return std::move(best_);
  }

 private:
  static Placement along(const Placements& placements, int axis) {
    return placements.empty() ? replicate() : placements[static_cast<std::size_t>(axis)];
  }

  std::vector<AxisChoice> candidates(int axis) const {
    std::vector<AxisChoice> all;
    const auto add = [&](const AxisChoice& choice) {
      if (std::ranges::find(all, choice) == all.end()) all.push_back(choice);
    };
    if (context_.mesh[axis] > 1) {
      add_parts(axis, add);
      const auto add_factor = [&](const std::vector<int>& dims, int dim) {
        const int factor = dims[static_cast<std::size_t>(dim)];
        if (factor != Factors::kNone) add({.kind = Kind::factor, .factor = factor});
      };
      const auto add_wish = [&](GraphValueId id, const std::vector<int>& dims) {
        if (id == kNoValue) return;
        if (const auto& wish = context_.wishes.at(id, axis)) add_factor(dims, wish->dim);
      };
      for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
        if (node_.inputs[i] == kNoValue) continue;
        const Placement now = along(now_[i], axis);
        if (now.is_shard()) add_factor(rule_.inputs[i], now.dim());
      }
      for (std::size_t o = 0; o < node_.outputs.size(); ++o)
        add_wish(node_.outputs[o], rule_.outputs[o]);
      for (std::size_t i = 0; i < node_.inputs.size(); ++i)
        add_wish(node_.inputs[i], rule_.inputs[i]);
    }
    add({});
    return all;
  }

  // Only what nobody else reads stays a part: else each reader would have to reduce it later.
  bool stays_part(std::size_t input) const { return context_.uses(node_.inputs[input]) == 1; }

  template <class Add>
  void add_parts(int axis, const Add& add) const {
    std::vector<std::size_t> parts;
    std::optional<ReduceOp> op;
    std::size_t given = 0;
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
      if (node_.inputs[i] == kNoValue) continue;
      ++given;
      const Placement now = along(now_[i], axis);
      if (!is_partial(now)) continue;
      if (!stays_part(i) || op.value_or(now.op()) != now.op()) return;
      op = now.op();
      parts.push_back(i);
    }
    if (parts.empty()) return;
    const bool sum = *op == ReduceOp::sum;
    switch (call_.def->partial) {
      case PartialRule::none: return;
      case PartialRule::moves:
        if (parts.size() == given) add({.kind = Kind::partial, .op = *op});
        return;
      case PartialRule::sums:
        if (parts.size() == given && sum) add({.kind = Kind::partial, .op = *op});
        return;
      case PartialRule::scales:
        if (parts.size() == 1 && sum) {
          add({.kind = Kind::partial, .input = parts[0], .op = *op});
        }
        return;
    }
  }

  void visit(int axis) {
    if (axis == axes_) {
      consider();
      return;
    }
    for (const AxisChoice& choice : candidates_[static_cast<std::size_t>(axis)]) {
      choice_[static_cast<std::size_t>(axis)] = choice;
      visit(axis + 1);
    }
  }

  std::int64_t parts(int factor) const {
    std::int64_t parts = 1;
    for (int axis = 0; axis < axes_; ++axis) {
      const AxisChoice& choice = choice_[static_cast<std::size_t>(axis)];
      if (choice.kind == Kind::factor && choice.factor == factor) parts *= context_.mesh[axis];
    }
    return parts;
  }

  bool is_reduced(int factor) const {
    return std::ranges::none_of(rule_.outputs,
                                [&](const auto& dims) { return dim_of(dims, factor).has_value(); });
  }

  bool is_uneven(int factor) const {
    for (std::size_t i = 0; i < rule_.inputs.size(); ++i) {
      const auto dim = dim_of(rule_.inputs[i], factor);
      if (dim && call_.inputs[i].shape[*dim] % parts(factor) != 0) return true;
    }
    return false;
  }

  // Whether the op can run on padding, and what that must be: see the lists above.
  bool accepts_padding(NodePlan& plan, int factor) const {
    const std::string_view op = call_.def->name;
    if (is_reduced(factor) && rule_.reduction == ReduceOp::mean) return false;
    for (std::size_t i = 0; i < rule_.inputs.size(); ++i) {
      if (!dim_of(rule_.inputs[i], factor)) continue;
      const bool integers = !is_float(call_.inputs[i].dtype);
      if (integers && (is_among(kRefuseIntegers, op) || is_among(kReadLengths, op))) return false;
      if (is_reduced(factor)) {
        plan.needs_fill[i] = true;
        plan.fills[i] = rule_.reduction;
      } else if (integers && i > 0 && is_among(kReadIndices, op)) {
        plan.needs_fill[i] = true;
      }
    }
    return true;
  }

  bool is_legal(NodePlan& plan) const {
    for (const AxisChoice& choice : choice_) {
      if (choice.kind != Kind::factor) continue;
      if (!can_cut(call_, rule_, choice.factor, parts(choice.factor))) return false;
      if (is_uneven(choice.factor) && !accepts_padding(plan, choice.factor)) return false;
      if (!is_claimed(choice.factor)) return false;
    }
    return has_one_reduction();
  }

  // Two axes share a factor only where they do so on an operand already, or were told to.
  bool is_claimed(int factor) const {
    std::vector<int> axes;
    for (int axis = 0; axis < axes_; ++axis) {
      const AxisChoice& choice = choice_[static_cast<std::size_t>(axis)];
      if (choice.kind == Kind::factor && choice.factor == factor) axes.push_back(axis);
    }
    if (axes.size() < 2) return true;
    const auto claims = [&](GraphValueId id, const std::vector<int>& dims, const Placements& now) {
      const auto dim = id == kNoValue ? std::nullopt : dim_of(dims, factor);
      return dim && std::ranges::all_of(axes, [&](int axis) {
               const auto& wish = context_.wishes.at(id, axis);
               return along(now, axis) == shard(*dim) || (wish && wish->dim == *dim);
             });
    };
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
      if (claims(node_.inputs[i], rule_.inputs[i], now_[i])) return true;
    }
    for (std::size_t o = 0; o < node_.outputs.size(); ++o) {
      if (claims(node_.outputs[o], rule_.outputs[o], {})) return true;
    }
    return false;
  }

  // Parts of different reductions don't mix: a sum of maxima is no maximum of sums.
  bool has_one_reduction() const {
    std::optional<ReduceOp> op;
    for (const AxisChoice& choice : choice_) {
      if (choice.kind == Kind::whole) continue;
      if (choice.kind == Kind::factor && !is_reduced(choice.factor)) continue;
      const ReduceOp own = choice.kind == Kind::factor ? rule_.reduction : choice.op;
      if (op.value_or(own) != own) return false;
      op = own;
    }
    return true;
  }

  Placement input_placement(std::size_t input, const AxisChoice& choice) const {
    if (choice.kind == Kind::factor) {
      const auto dim = dim_of(rule_.inputs[input], choice.factor);
      return dim ? shard(*dim) : replicate();
    }
    const bool is_part = choice.kind == Kind::partial &&
                         (call_.def->partial != PartialRule::scales || choice.input == input);
    return is_part ? partial(choice.op) : replicate();
  }

  Placement output_placement(std::size_t output, const AxisChoice& choice) const {
    if (choice.kind == Kind::whole) return replicate();
    if (choice.kind == Kind::partial) return partial(choice.op);
    const auto dim = dim_of(rule_.outputs[output], choice.factor);
    return dim ? shard(*dim) : partial(rule_.reduction);
  }

  NodePlan plan_of_choice() const {
    NodePlan plan;
    plan.axes = choice_;
    plan.fills.assign(node_.inputs.size(), ReduceOp::sum);
    plan.needs_fill.assign(node_.inputs.size(), false);
    plan.inputs.resize(node_.inputs.size());
    plan.outputs.resize(node_.outputs.size());
    for (const AxisChoice& choice : choice_) {
      for (std::size_t i = 0; i < node_.inputs.size(); ++i)
        plan.inputs[i].push_back(input_placement(i, choice));
      for (std::size_t o = 0; o < node_.outputs.size(); ++o)
        plan.outputs[o].push_back(output_placement(o, choice));
    }
    return plan;
  }

  void consider() {
    NodePlan plan = plan_of_choice();
    if (!is_legal(plan)) return;
    double cost = work();
    for (std::size_t i = 0; i < node_.inputs.size() && cost < best_cost_; ++i) {
      if (node_.inputs[i] == kNoValue) continue;
      cost += context_.cost(node_.inputs[i], plan.inputs[i]);
      if (plan.needs_fill[i] && !context_.graph.is_constant(node_.inputs[i])) {
        cost += kTouchedByte * static_cast<double>(call_.inputs[i].bytes());
      }
    }
    for (std::size_t o = 0; o < node_.outputs.size() && cost < best_cost_; ++o) {
      if (node_.outputs[o] == kNoValue) continue;
      cost += reshard_cost(call_.outputs[o], context_.mesh, plan.outputs[o],
                           wished(node_.outputs[o], plan.outputs[o]));
    }
    if (cost < best_cost_) {
      best_cost_ = cost;
      best_ = std::move(plan);
    }
  }

  // Where a result will be wanted, as far as one can see from here.
  Placements wished(GraphValueId id, const Placements& made) const {
    Placements result;
    for (int axis = 0; axis < axes_; ++axis) {
      const auto& wish = context_.wishes.at(id, axis);
      const Placement own = along(made, axis);
      // What came through this very op says nothing about what the result is for.
      const bool is_news = wish && wish->via != &node_;
      result.push_back(is_news ? shard(wish->dim) : is_partial(own) ? replicate() : own);
    }
    return result;
  }

  // What one device computes.
  double work() const {
    double flops = 0;
    double bytes = 0;
    for (const OperandType& input : call_.inputs)
      bytes += static_cast<double>(input.bytes());
    for (const OperandType& output : call_.outputs)
      bytes += static_cast<double>(output.bytes());
    const std::string_view op = call_.def->name;
    const bool multiplies =
        op == "matmul" || op == "conv" || op == "conv_transpose" || op == "einsum";
    if (multiplies && call_.inputs.size() > 1) {
      const Shape& weights = call_.inputs[1].shape;
      const auto results = static_cast<double>(call_.outputs[0].shape.element_count());
      const auto each = static_cast<double>(std::max<std::int64_t>(
          1,
          weights.rank() > 0 ? weights.element_count() / std::max<std::int64_t>(1, kept(1)) : 1));
      flops = 2 * results * each;
    }
    double share = 1;
    for (int axis = 0; axis < axes_; ++axis) {
      const AxisChoice& choice = choice_[static_cast<std::size_t>(axis)];
      if (choice.kind == Kind::factor) share /= context_.mesh[axis];
    }
    return share * (kTouchedByte * bytes + kFlop * flops);
  }

  // Elements of an input per element that is summed over.
  std::int64_t kept(std::size_t input) const {
    std::int64_t count = 1;
    const std::vector<int>& dims = rule_.inputs[input];
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] != Factors::kNone && !is_reduced(dims[d])) {
        count *= call_.inputs[input].shape[static_cast<int>(d)];
      }
    }
    return count;
  }

  const GraphNode& node_;
  const ChoiceContext& context_;
  OpCall call_;
  const Factors& rule_;
  int axes_;
  std::vector<Placements> now_;
  std::vector<std::vector<AxisChoice>> candidates_;
  std::vector<AxisChoice> choice_;
  NodePlan best_;
  double best_cost_ = std::numeric_limits<double>::infinity();
};

}  // namespace

NodePlan choose(const GraphNode& node, const ChoiceContext& context) {
  return Chooser(node, context).run();
}

double reshard_cost(const OperandType& type, const MeshShape& mesh, const Placements& from,
                    const Placements& to) {
  if (from == to || (from.empty() && to.empty())) return 0;
  const TensorSpec before{
      .shape = type.shape, .dtype = type.dtype, .placements = from, .mesh = mesh};
  TensorSpec after = before;
  after.placements = to;
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    // What can't become parts of a reduction costs too much.
    if (is_partial(after.placement(axis)) && !(before.placement(axis) == after.placement(axis))) {
      return std::numeric_limits<double>::infinity();
    }
  }
  const ReshardPlan plan = plan_reshard(before, after);
  // A slice is free but for a step of the program.
  return static_cast<double>(plan.cost_bytes()) + static_cast<double>(plan.steps.size());
}

}  // namespace tilemesh::partition
