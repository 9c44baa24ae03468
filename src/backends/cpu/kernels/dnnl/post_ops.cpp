#include "backends/cpu/kernels/dnnl/post_ops.hpp"

#include <bit>
#include <cstdint>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

#include "backends/cpu/kernels/dnnl/descriptor.hpp"
#include "backends/cpu/same_memory.hpp"

namespace tilemesh::cpu::onednn {
namespace {

using dnnl::algorithm;
using Step = ExpressionStep;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Eltwise {
  algorithm kind;
  float alpha = 0;
  float beta = 0;
};

/// The same bits: 0 and -0 differ.
bool have_same_numbers(const Eltwise& a, const Eltwise& b) {
  const auto bits = [](float number) {
    return std::bit_cast<std::uint32_t>(number);
  };
  return bits(a.alpha) == bits(b.alpha) && bits(a.beta) == bits(b.beta);
}

/// The eltwise post-ops that make one step, in order; empty if there are none. log and softplus are
/// left out on purpose: oneDNN's err by 1e-6 of 1, which near log(1), and in the tail of softplus,
/// is more than there is.
std::vector<Eltwise> eltwise_of(const Step& step) {
  const float alpha = step.alpha;
  const float beta = step.beta;
  switch (step.fn) {
    case ScalarFn::neg: return {{algorithm::eltwise_linear, -1, -0.0F}};
    case ScalarFn::abs: return {{algorithm::eltwise_abs}};
    case ScalarFn::exp: return {{algorithm::eltwise_exp}};
    case ScalarFn::sqrt: return {{algorithm::eltwise_sqrt}};
    case ScalarFn::relu: return {{algorithm::eltwise_relu}};
    case ScalarFn::leaky_relu: return {{algorithm::eltwise_relu, alpha, 0}};
    case ScalarFn::sigmoid: return {{algorithm::eltwise_logistic}};
    case ScalarFn::hard_sigmoid:
      return {{algorithm::eltwise_linear, alpha, beta}, {algorithm::eltwise_clip, 0, 1}};
    case ScalarFn::hard_swish: return {{algorithm::eltwise_hardswish}};
    case ScalarFn::tanh: return {{algorithm::eltwise_tanh}};
    case ScalarFn::gelu: return {{algorithm::eltwise_gelu_erf}};
    case ScalarFn::gelu_tanh: return {{algorithm::eltwise_gelu_tanh}};
    case ScalarFn::clip: return {{algorithm::eltwise_clip, alpha, beta}};
    case ScalarFn::linear: return {{algorithm::eltwise_linear, alpha, beta}};
    case ScalarFn::elu: return {{algorithm::eltwise_elu, alpha, 0}};
    case ScalarFn::swish: return {{algorithm::eltwise_swish, alpha, 0}};
    case ScalarFn::round: return {{algorithm::eltwise_round}};
    default: return {};
  }
}

std::optional<algorithm> binary_of(ScalarFn fn) {
  switch (fn) {
    case ScalarFn::add: return algorithm::binary_add;
    case ScalarFn::sub: return algorithm::binary_sub;
    case ScalarFn::mul: return algorithm::binary_mul;
    case ScalarFn::div: return algorithm::binary_div;
    case ScalarFn::min: return algorithm::binary_min;
    case ScalarFn::max: return algorithm::binary_max;
    default: return std::nullopt;
  }
}

bool is_commutative(ScalarFn fn) {
  return fn == ScalarFn::add || fn == ScalarFn::mul || fn == ScalarFn::min || fn == ScalarFn::max;
}

bool is_operand(std::int16_t argument) {
  return argument >= Step::kOperand;
}

/// Walks the chain and appends post-ops.
class Translator {
 public:
  Translator(const OpCall& call, const PostOpRules& rules) : call_(call), rules_(rules) {}

  PostOps translate() {
    const std::vector<Step>& steps = call_.epilogue.steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto self = narrow<std::int16_t>(i);
      if (i + 1 < steps.size() && gate(steps[i], steps[i + 1], self)) {
        ++i;
      } else {
        append(steps[i]);
      }
      value_ = narrow<std::int16_t>(i);
    }
    return std::move(result_);
  }

 private:
  [[noreturn]] void refuse(const Step& step, std::string_view why) const {
    throw Refused{fmt::format("the epilogue's {}: {}", to_string(step.fn), why)};
  }

  /// mul(x, sigmoid(a x)) is swish, mul(x, hard_sigmoid(x)) with the usual numbers hard_swish.
  bool gate(const Step& inner, const Step& outer, std::int16_t inner_index) {
    const bool multiplies = outer.fn == ScalarFn::mul && inner.arguments[0] == value_ &&
                            ((outer.arguments[0] == value_ && outer.arguments[1] == inner_index) ||
                             (outer.arguments[1] == value_ && outer.arguments[0] == inner_index));
    if (!multiplies) {
      return false;
    }
    if (inner.fn == ScalarFn::sigmoid) {
      append_eltwise(outer, {algorithm::eltwise_swish, 1, 0});
      return true;
    }
    if (inner.fn == ScalarFn::hard_sigmoid && inner.alpha == 1.0F / 6 && inner.beta == 0.5F) {
      append_eltwise(outer, {algorithm::eltwise_hardswish});
      return true;
    }
    return false;
  }

  void append(const Step& step) {
    if (arity(step.fn) == 1) {
      append_unary(step);
    } else {
      append_binary(step);
    }
  }

  void append_unary(const Step& step) {
    if (step.arguments[0] != value_) {
      refuse(step, "its argument isn't the value of the step before");
    }
    if (step.fn == ScalarFn::identity) {
      return;
    }
    const std::vector<Eltwise> list = eltwise_of(step);
    if (list.empty()) {
      refuse(step, "oneDNN has no exact post-op for it");
    }
    for (const Eltwise& eltwise : list) {
      append_eltwise(step, eltwise);
    }
  }

  void append_eltwise(const Step& step, Eltwise eltwise) {
    if (eltwise.kind == algorithm::eltwise_clip && eltwise.alpha == 0 &&
        eltwise.beta == kInfinity) {
      eltwise = {algorithm::eltwise_relu};
    }
    for (const Eltwise& other : eltwise_) {
      if (other.kind == eltwise.kind && !have_same_numbers(other, eltwise)) {
        refuse(step, "oneDNN takes the numbers of an earlier post-op of the same kind for it");
      }
    }
    eltwise_.push_back(eltwise);
    result_.ops.append_eltwise(1, eltwise.kind, eltwise.alpha, eltwise.beta);
  }

  void append_binary(const Step& step) {
    const std::optional<algorithm> kind = binary_of(step.fn);
    if (!kind) {
      refuse(step, "oneDNN has no post-op for it");
    }
    const bool swapped = step.arguments[1] == value_ && is_operand(step.arguments[0]);
    const std::int16_t argument = step.arguments[swapped ? 0 : 1];
    if (!is_operand(argument) || (!swapped && step.arguments[0] != value_)) {
      refuse(step, "it doesn't combine the value of the step before with an operand");
    }
    if (swapped && step.fn == ScalarFn::sub) {
      append_eltwise(step, {algorithm::eltwise_linear, -1, -0.0F});
      append_operand(step, algorithm::binary_add, argument);
      return;
    }
    if (swapped && !is_commutative(step.fn)) {
      refuse(step, "oneDNN has it with the operand on the right only");
    }
    append_operand(step, *kind, argument);
  }

  void append_operand(const Step& step, algorithm kind, std::int16_t argument) {
    const auto index = static_cast<std::size_t>(argument - Step::kOperand);
    TILEMESH_CHECK(index < call_.inputs.size(), "an epilogue names an operand that isn't there");
    const OperandType& operand = call_.inputs[index];
    if (kind == algorithm::binary_add && result_.ops.len() == 0 &&
        result_.bias_operand == PostOps::kNone && rules_.is_bias(operand)) {
      result_.bias_operand = narrow<int>(index);
      return;
    }
    try {
      // Seen to give wrong numbers in oneDNN 2.6.3.
      require(has_isa(dnnl::cpu_isa::avx2), "an operand on a processor without avx2");
      const dnnl::memory::desc desc = rules_.describe(operand);
      result_.binaries.push_back({result_.ops.len(), index, desc});
      result_.ops.append_binary(kind, desc);
    } catch (const Refused& refused) {
      refuse(step, refused.reason);
    }
  }

  const OpCall& call_;
  const PostOpRules& rules_;
  PostOps result_;
  std::vector<Eltwise> eltwise_;  // so far
  std::int16_t value_ = Step::kResult;
};

}  // namespace

int PostOps::Binary::slot(KernelBuilder& builder, const OpCall& call, const OpCall& planned) const {
  const OperandType& type = call.inputs[operand];
  const bool as_planned = same_memory(type.shape, type.layout, planned.inputs[operand].layout);
  return as_planned ? builder.operand(operand, desc) : builder.input(operand, describe(type), desc);
}

void PostOps::add_arguments(KernelBuilder& builder, const OpCall& call, const OpCall& planned,
                            std::vector<KernelBuilder::Argument>& arguments) const {
  for (const Binary& binary : binaries) {
    arguments.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(binary.index) | DNNL_ARG_SRC_1,
                         binary.slot(builder, call, planned)});
  }
}

PostOps post_ops_for(const OpCall& call, const PostOpRules& rules) {
  return Translator(call, rules).translate();
}

bool may_lose_nan(algorithm kind) {
  switch (kind) {
    case algorithm::eltwise_relu:
    case algorithm::eltwise_clip:
    case algorithm::eltwise_exp:
    case algorithm::eltwise_logistic:
    case algorithm::binary_max:
    case algorithm::binary_min: return true;
    default: return false;
  }
}

bool may_lose_nan(const dnnl::post_ops& post_ops) {
  for (int i = 0; i < post_ops.len(); ++i) {
    algorithm kind{};
    float scale = 1;
    float alpha = 0;
    float beta = 0;
    if (post_ops.kind(i) == dnnl::primitive::kind::eltwise) {
      post_ops.get_params_eltwise(i, scale, kind, alpha, beta);
    } else {
      dnnl::memory::desc operand;
      post_ops.get_params_binary(i, kind, operand);
    }
    const bool is_leaky = kind == algorithm::eltwise_relu && alpha != 0;  // a product
    if (may_lose_nan(kind) && !is_leaky) {
      return true;
    }
  }
  return false;
}

bool is_linear(const OperandType& operand) {
  if (operand.layout.is_opaque()) {
    return false;
  }
  int long_dims = 0;
  for (int dim = 0; dim < operand.shape.rank(); ++dim) {
    const bool is_long = operand.shape[dim] > 1;
    long_dims += is_long ? 1 : 0;
    if (!is_long && operand.layout.block_of(dim) > 1) {
      return false;
    }
  }
  return long_dims <= 1 || operand.layout.is_rows();
}

Shape pad_rank(const Shape& operand, int rank) {
  Dims dims = operand.sizes();
  while (static_cast<int>(dims.size()) < rank) {
    dims.insert(0, 1);
  }
  return Shape(dims);
}

}  // namespace tilemesh::cpu::onednn
