#include "backends/cpu/follow_rules.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace tilemesh::cpu {
namespace {

/// How an op treats the layout of its images.
enum class Follows : std::uint8_t {
  elementwise,  // every operand of the output's size
  window,       // the first input, whatever its size
  parts,        // all inputs of the output's rank, as long as no block is cut
};
struct Rule {
  std::string_view op;
  Follows follows;
};
constexpr Rule kRules[] = {
    {"average_pool", Follows::window},
    {"batch_normalization", Follows::elementwise},
    {"cast", Follows::elementwise},
    {"concat", Follows::parts},
    {"dequantize", Follows::elementwise},
    {"equal", Follows::elementwise},
    {"global_average_pool", Follows::window},
    {"global_max_pool", Follows::window},
    {"greater", Follows::elementwise},
    {"greater_or_equal", Follows::elementwise},
    {"less", Follows::elementwise},
    {"less_or_equal", Follows::elementwise},
    {"lrn", Follows::elementwise},
    {"map", Follows::elementwise},
    {"max_pool", Follows::window},
    {"pad", Follows::parts},
    {"quantize", Follows::elementwise},
    {"quantized_add", Follows::elementwise},
    {"quantized_mul", Follows::elementwise},
    {"requantize", Follows::elementwise},
    {"resize", Follows::window},
    {"slice", Follows::parts},
    {"split", Follows::parts},
    {"where", Follows::elementwise},
};

const Rule* find_rule(const OpDef& op) {
  static constexpr Rule kScalarRule{"", Follows::elementwise};
  const auto* rule = std::ranges::find(kRules, op.name, &Rule::op);
  if (rule != std::end(kRules)) {
    return rule;
  }
  return op.scalar_fn >= 0 ? &kScalarRule : nullptr;
}

bool cuts_a_block(const OpCall& call, int dim, std::int64_t block) {
  const Shape& first = call.inputs[0].shape;
  bool is_same = true;
  bool is_whole = true;
  for (const auto* operands : {&call.inputs, &call.outputs}) {
    for (const OperandType& type : *operands) {
      if (type.present && type.shape.rank() == first.rank()) {
        is_same = is_same && type.shape[dim] == first[dim];
        is_whole = is_whole && type.shape[dim] % block == 0;
      }
    }
  }
  return !is_same && !is_whole;
}

}  // namespace

bool is_follower(const OpDef& op) {
  return find_rule(op) != nullptr;
}

bool can_follow(const OpCall& call, const Layout& layout) {
  const Rule* rule = find_rule(*call.def);
  if (rule == nullptr || rule->follows != Follows::parts) {
    return rule != nullptr;
  }
  for (int dim = 0; dim < call.inputs[0].shape.rank(); ++dim) {
    if (cuts_a_block(call, dim, layout.block_of(dim))) {
      return false;
    }
  }
  return true;
}

bool lies_like_output(const OpCall& call, std::size_t input) {
  const Rule* rule = find_rule(*call.def);
  const OperandType& type = call.inputs[input];
  if (rule == nullptr || !type.present || type.shape.rank() != call.outputs[0].shape.rank()) {
    return false;
  }
  switch (rule->follows) {
    case Follows::elementwise: return type.shape == call.outputs[0].shape;
    case Follows::window: return input == 0;
    case Follows::parts: return true;
  }
  return false;
}

}  // namespace tilemesh::cpu
