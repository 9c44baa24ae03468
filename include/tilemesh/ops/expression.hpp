#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tilemesh {

/// Scalar functions that elementwise ops and fused chains are made of. The numbers are part of the
/// binary format. `alpha` and `beta` are the two parameters of a step.
enum class ScalarFn : std::uint8_t {
  // one argument
  identity = 0,
  neg,
  abs,
  exp,
  log,
  sqrt,
  reciprocal,
  erf,
  relu,
  leaky_relu,  ///< x < 0 ? alpha * x : x
  sigmoid,
  hard_sigmoid,  ///< max(0, min(1, alpha * x + beta))
  hard_swish,    ///< x * max(0, min(1, x / 6 + 0.5))
  tanh,
  gelu,       ///< x/2 * (1 + erf(x / sqrt(2)))
  gelu_tanh,  ///< the tanh approximation
  clip,       ///< min(max(x, alpha), beta)
  linear,     ///< alpha * x + beta
  elu,        ///< x < 0 ? alpha * (exp(x) - 1) : x
  softplus,
  softsign,
  swish,  ///< x * sigmoid(alpha * x)
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  asinh,
  acosh,
  atanh,
  floor,
  ceil,
  round,  ///< half to even
  sign,
  selu,  ///< beta * (x < 0 ? alpha * (exp(x) - 1) : x)
  celu,  ///< max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
  // two arguments
  add = 64,
  sub,
  mul,
  div,
  pow,
  min,
  max,
  prelu,  ///< x < 0 ? slope * x : x
};

/// 1 or 2; 0 for a number that is no function (met in files).
int arity(ScalarFn fn);
std::string_view to_string(ScalarFn fn);

/// The value of a function in double precision: what every kernel is compared with.
double evaluate(ScalarFn fn, double x, double y, double alpha, double beta);

/// One step of a fused elementwise chain. An argument names an operand of the op (kOperand + k), an
/// earlier step (k), or the op's own result before the chain (kResult).
struct ExpressionStep {
  static constexpr std::int16_t kResult = -1;
  static constexpr std::int16_t kOperand = 0x4000;

  ScalarFn fn = ScalarFn::identity;
  std::array<std::int16_t, 2> arguments{kResult, kResult};
  float alpha = 0;
  float beta = 0;
  friend bool operator==(const ExpressionStep&, const ExpressionStep&) = default;
};

/// A chain of scalar functions over broadcast operands, applied to every element of an op's result
/// in one pass; its value is the last step. Computed in f32 for f32, f16 and bf16.
///
/// On the op `map` it is the op itself (operands are the op's inputs); on matmul, conv and others
/// it is the epilogue, and its extra operands follow the op's own inputs.
struct Expression {
  std::vector<ExpressionStep> steps;
  bool empty() const { return steps.empty(); }
  friend bool operator==(const Expression&, const Expression&) = default;
};

/// "relu(add(r, i2))"; a step that is used twice is named first: "s0 = exp(r); add(s0, s0)".
std::string to_string(const Expression& expression);

}  // namespace tilemesh
