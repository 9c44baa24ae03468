#include "compiler/passes/chain.hpp"

#include <algorithm>

#include "compiler/passes/constants.hpp"

namespace tilemesh::passes {
namespace {

constexpr std::int16_t kOperand = ExpressionStep::kOperand;

std::int16_t argument(std::size_t index, bool is_operand) {
  return static_cast<std::int16_t>(index + (is_operand ? static_cast<std::size_t>(kOperand) : 0));
}

bool is_operand(std::int16_t argument) {
  return argument >= kOperand;
}

std::size_t index_of(std::int16_t argument) {
  return static_cast<std::size_t>(is_operand(argument) ? argument - kOperand : argument);
}

// Calls `visit` on each argument that the step really has.
template <class Step, class Visitor>
void for_each_argument(Step& step, Visitor&& visit) {
  for (int i = 0; i < arity(step.fn); ++i)
    visit(step.arguments[static_cast<std::size_t>(i)]);
}

}  // namespace

std::size_t operand_index(std::vector<GraphValueId>& operands, GraphValueId id, std::size_t first) {
  const auto found =
      std::find(operands.begin() + static_cast<std::ptrdiff_t>(std::min(first, operands.size())),
                operands.end(), id);
  const auto index = static_cast<std::size_t>(found - operands.begin());
  if (found == operands.end()) operands.push_back(id);
  return index;
}

std::optional<Chain> as_chain(const Graph& graph, const GraphNode& node) {
  if (node.kind != GraphNode::Kind::call || node.outputs.size() != 1) return std::nullopt;
  const DType dtype = graph[node.outputs[0]].type.dtype;
  const bool same_types = std::ranges::all_of(node.inputs, [&](GraphValueId id) {
    return id != kNoValue && graph[id].type.dtype == dtype;
  });
  if (!is_mapped(dtype) || !same_types) return std::nullopt;
  if (node.def->name == "map") return Chain{node.epilogue.steps, node.inputs};
  if (!node.epilogue.empty()) return std::nullopt;
  std::optional<ExpressionStep> step = scalar_step(graph.call_of(node));
  if (!step || std::cmp_not_equal(arity(step->fn), node.inputs.size())) return std::nullopt;
  Chain chain;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    step->arguments[i] = argument(operand_index(chain.operands, node.inputs[i]), true);
  }
  if (node.inputs.size() == 1) step->arguments[1] = step->arguments[0];
  chain.steps.push_back(*step);
  return chain;
}

Chain inline_chain(const Chain& producer, const Chain& user, GraphValueId id) {
  Chain result = producer;
  const auto shift = producer.steps.size();
  for (ExpressionStep step : user.steps) {
    for (std::int16_t& arg : step.arguments) {
      if (!is_operand(arg)) {
        arg = argument(index_of(arg) + shift, false);
      } else if (user.operands[index_of(arg)] == id) {
        arg = argument(shift - 1, false);
      } else {
        arg = argument(operand_index(result.operands, user.operands[index_of(arg)]), true);
      }
    }
    result.steps.push_back(step);
  }
  return result;
}

std::size_t cut_point(const Chain& chain, GraphValueId id, std::size_t limit) {
  const auto may_cut = [&](std::size_t count) {
    for (std::size_t i = count; i < chain.steps.size(); ++i) {
      bool fits = true;
      for_each_argument(chain.steps[i], [&](std::int16_t arg) {
        const std::size_t index = index_of(arg);
        fits = fits && (is_operand(arg) ? chain.operands[index] != id : index + 1 >= count);
      });
      if (!fits) return false;
    }
    return true;
  };
  while (limit > 0 && !may_cut(limit))
    --limit;
  return limit;
}

Chain behind(const Chain& chain, std::size_t count, GraphValueId id) {
  Chain rest;
  for (std::size_t i = count; i < chain.steps.size(); ++i) {
    ExpressionStep step = chain.steps[i];
    for (std::int16_t& arg : step.arguments) {
      const std::size_t index = index_of(arg);
      if (is_operand(arg)) {
        arg = argument(operand_index(rest.operands, chain.operands[index]), true);
      } else if (index < count) {
        arg = argument(operand_index(rest.operands, id), true);
      } else {
        arg = argument(index - count, false);
      }
    }
    rest.steps.push_back(step);
  }
  return rest;
}

}  // namespace tilemesh::passes
