#include "tilemesh/ops/expression.hpp"

#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh {
namespace {

// Every branch is written so that NaN stays NaN.
double clipped(double x, double low, double high) {
  const double raised = x < low ? low : x;
  return raised > high ? high : raised;
}
double sigmoid(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}
double softplus(double x) {
  return (x > 0 ? x : 0) + std::log1p(std::exp(-std::abs(x)));
}
double gelu_tanh(double x) {
  const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x * sigmoid(2 * inner);  // (1 + tanh(inner)) / 2, also where that cancels
}
double smaller(double x, double y) {
  return std::isnan(x) || x < y ? x : y;
}
double larger(double x, double y) {
  return std::isnan(x) || x > y ? x : y;
}

struct ScalarRow {
  ScalarFn fn;
  std::string_view name;
  int arity;
  int parameters;  // how many of alpha, beta it uses
  double (*value)(double x, double y, double alpha, double beta);
};

using F = ScalarFn;
// The parameters are unnamed where a function doesn't use them.
constexpr ScalarRow kRows[] = {
    {F::identity, "identity", 1, 0,
     [](double x, double, double, double) {
       return x;
     }},
    {F::neg, "neg", 1, 0,
     [](double x, double, double, double) {
       return -x;
     }},
    {F::abs, "abs", 1, 0,
     [](double x, double, double, double) {
       return std::abs(x);
     }},
    {F::exp, "exp", 1, 0,
     [](double x, double, double, double) {
       return std::exp(x);
     }},
    {F::log, "log", 1, 0,
     [](double x, double, double, double) {
       return std::log(x);
     }},
    {F::sqrt, "sqrt", 1, 0,
     [](double x, double, double, double) {
       return std::sqrt(x);
     }},
    {F::reciprocal, "reciprocal", 1, 0,
     [](double x, double, double, double) {
       return 1 / x;
     }},
    {F::erf, "erf", 1, 0,
     [](double x, double, double, double) {
       return std::erf(x);
     }},
    {F::relu, "relu", 1, 0,
     [](double x, double, double, double) {
       return x < 0 ? 0 : x;
     }},
    {F::leaky_relu, "leaky_relu", 1, 1,
     [](double x, double, double alpha, double) {
       return x < 0 ? alpha * x : x;
     }},
    {F::sigmoid, "sigmoid", 1, 0,
     [](double x, double, double, double) {
       return sigmoid(x);
     }},
    {F::hard_sigmoid, "hard_sigmoid", 1, 2,
     [](double x, double, double alpha, double beta) {
       return clipped(alpha * x + beta, 0, 1);
     }},
    {F::hard_swish, "hard_swish", 1, 0,
     [](double x, double, double, double) {
       return x * clipped(x / 6 + 0.5, 0, 1);
     }},
    {F::tanh, "tanh", 1, 0,
     [](double x, double, double, double) {
       return std::tanh(x);
     }},
    {F::gelu, "gelu", 1, 0,
     [](double x, double, double, double) {
       return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);  // 1 + erf would cancel
     }},
    {F::gelu_tanh, "gelu_tanh", 1, 0,
     [](double x, double, double, double) {
       return gelu_tanh(x);
     }},
    {F::clip, "clip", 1, 2,
     [](double x, double, double alpha, double beta) {
       return clipped(x, alpha, beta);
     }},
    {F::linear, "linear", 1, 2,
     [](double x, double, double alpha, double beta) {
       return alpha * x + beta;
     }},
    {F::elu, "elu", 1, 1,
     [](double x, double, double alpha, double) {
       return x < 0 ? alpha * std::expm1(x) : x;
     }},
    {F::softplus, "softplus", 1, 0,
     [](double x, double, double, double) {
       return softplus(x);
     }},
    {F::softsign, "softsign", 1, 0,
     [](double x, double, double, double) {
       return x / (1 + std::abs(x));
     }},
    {F::swish, "swish", 1, 1,
     [](double x, double, double alpha, double) {
       return x * sigmoid(alpha * x);
     }},
    {F::sin, "sin", 1, 0,
     [](double x, double, double, double) {
       return std::sin(x);
     }},
    {F::cos, "cos", 1, 0,
     [](double x, double, double, double) {
       return std::cos(x);
     }},
    {F::tan, "tan", 1, 0,
     [](double x, double, double, double) {
       return std::tan(x);
     }},
    {F::asin, "asin", 1, 0,
     [](double x, double, double, double) {
       return std::asin(x);
     }},
    {F::acos, "acos", 1, 0,
     [](double x, double, double, double) {
       return std::acos(x);
     }},
    {F::atan, "atan", 1, 0,
     [](double x, double, double, double) {
       return std::atan(x);
     }},
    {F::sinh, "sinh", 1, 0,
     [](double x, double, double, double) {
       return std::sinh(x);
     }},
    {F::cosh, "cosh", 1, 0,
     [](double x, double, double, double) {
       return std::cosh(x);
     }},
    {F::asinh, "asinh", 1, 0,
     [](double x, double, double, double) {
       return std::asinh(x);
     }},
    {F::acosh, "acosh", 1, 0,
     [](double x, double, double, double) {
       return std::acosh(x);
     }},
    {F::atanh, "atanh", 1, 0,
     [](double x, double, double, double) {
       return std::atanh(x);
     }},
    {F::floor, "floor", 1, 0,
     [](double x, double, double, double) {
       return std::floor(x);
     }},
    {F::ceil, "ceil", 1, 0,
     [](double x, double, double, double) {
       return std::ceil(x);
     }},
    {F::round, "round", 1, 0,
     [](double x, double, double, double) {
       return std::nearbyint(x);
     }},
    {F::sign, "sign", 1, 0,
     [](double x, double, double, double) {
       return x > 0 ? 1 : x < 0 ? -1 : x;
     }},
    {F::selu, "selu", 1, 2,
     [](double x, double, double alpha, double beta) {
       return beta * (x < 0 ? alpha * std::expm1(x) : x);
     }},
    {F::celu, "celu", 1, 1,
     [](double x, double, double alpha, double) {
       return larger(x, 0) + smaller(alpha * std::expm1(x / alpha), 0);
     }},
    {F::add, "add", 2, 0,
     [](double x, double y, double, double) {
       return x + y;
     }},
    {F::sub, "sub", 2, 0,
     [](double x, double y, double, double) {
       return x - y;
     }},
    {F::mul, "mul", 2, 0,
     [](double x, double y, double, double) {
       return x * y;
     }},
    {F::div, "div", 2, 0,
     [](double x, double y, double, double) {
       return x / y;
     }},
    {F::pow, "pow", 2, 0,
     [](double x, double y, double, double) {
       return std::pow(x, y);
     }},
    {F::min, "min", 2, 0,
     [](double x, double y, double, double) {
       return smaller(x, y);
     }},
    {F::max, "max", 2, 0,
     [](double x, double y, double, double) {
       return larger(x, y);
     }},
    {F::prelu, "prelu", 2, 0,
     [](double x, double y, double, double) {
       return x < 0 ? y * x : x;
     }},
};

const ScalarRow* find(ScalarFn fn) {
  const auto first_binary = static_cast<std::size_t>(F::celu) + 1;
  const auto number = static_cast<std::size_t>(fn);
  const std::size_t at = number < first_binary ? number
                         : number >= 64        ? number - 64 + first_binary
                                               : std::size(kRows);
  return at < std::size(kRows) ? &kRows[at] : nullptr;
}

std::string argument_text(std::int16_t argument, std::vector<std::string>& steps) {
  if (argument == ExpressionStep::kResult) return "r";
  if (argument >= ExpressionStep::kOperand) {
    return fmt::format("i{}", argument - ExpressionStep::kOperand);
  }
  if (argument < 0 || static_cast<std::size_t>(argument) >= steps.size()) return "?";
  return steps[static_cast<std::size_t>(argument)];
}

}  // namespace

int arity(ScalarFn fn) {
  const ScalarRow* row = find(fn);
  return row == nullptr ? 0 : row->arity;
}

std::string_view to_string(ScalarFn fn) {
  const ScalarRow* row = find(fn);
  return row == nullptr ? "?" : row->name;
}

double evaluate(ScalarFn fn, double x, double y, double alpha, double beta) {
  const ScalarRow* row = find(fn);
  TILEMESH_CHECK(row != nullptr, "a scalar function outside the table");
  return row->value(x, y, alpha, beta);
}

std::string to_string(const Expression& expression) {
  std::vector<int> uses(expression.steps.size());
  for (const ExpressionStep& step : expression.steps) {
    for (int k = 0; k < arity(step.fn); ++k) {
      const auto argument = step.arguments[static_cast<std::size_t>(k)];
      if (argument >= 0 && static_cast<std::size_t>(argument) < uses.size()) {
        ++uses[static_cast<std::size_t>(argument)];
      }
    }
  }
  // A step that is used twice gets a name, so that the text stays as short as the chain.
  std::string named;
  std::vector<std::string> steps;
  for (const ExpressionStep& step : expression.steps) {
    const ScalarRow* row = find(step.fn);
    std::string text =
        fmt::format("{}({}", to_string(step.fn), argument_text(step.arguments[0], steps));
    if (row != nullptr && row->arity == 2) {
      text += ", " + argument_text(step.arguments[1], steps);
    }
    if (row != nullptr && row->parameters > 0) text += fmt::format("; {}", step.alpha);
    if (row != nullptr && row->parameters > 1) text += fmt::format(", {}", step.beta);
    text += ")";
    if (uses[steps.size()] > 1) {
      named += fmt::format("s{} = {}; ", steps.size(), text);
      text = fmt::format("s{}", steps.size());
    }
    steps.push_back(std::move(text));
  }
  return steps.empty() ? "" : named + steps.back();
}

}  // namespace tilemesh
