#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "tilemesh/ops/expression.hpp"

#include "elements.hpp"

namespace tilemesh::ops {

/// An integer to a non-negative power, wrapping; to a negative one truncated towards zero.
template <class T>
T integer_power(T base, T exponent) {
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) {
      if (base == 0) throw Error(ErrorCode::kernel_failed, "zero to a negative integer power");
      return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
    }
  }
  T result = 1;
  for (; exponent != 0; exponent /= 2) {
    if (exponent % 2 != 0) result = wrapping_mul(result, base);
    base = wrapping_mul(base, base);
  }
  return result;
}

/// Truncates towards zero, as ONNX Div does.
template <class T>
T integer_quotient(T x, T y) {
  if (y == 0) throw Error(ErrorCode::kernel_failed, "integer division by zero");
  if constexpr (std::is_signed_v<T>) {
    if (y == -1) return wrapping_sub<T>(0, x);  // the lowest number's quotient wraps
  }
  return x / y;
}

/// `value` rounded half to even and held within T.
template <class T>
T saturated(double value) {
  const double rounded = std::nearbyint(value);
  if (std::isnan(rounded)) return 0;
  // The highest T isn't a double; what rounds up to it is out of range already.
  if (rounded >= static_cast<double>(std::numeric_limits<T>::max())) {
    return std::numeric_limits<T>::max();
  }
  if (rounded <= static_cast<double>(std::numeric_limits<T>::min())) {
    return std::numeric_limits<T>::min();
  }
  return static_cast<T>(rounded);
}

template <class T>
T evaluate_integer(ScalarFn fn, T x, T y, double alpha, double beta) {
  const bool negative = std::is_signed_v<T> && x < T{};
  switch (fn) {
    case ScalarFn::identity:
    case ScalarFn::floor:
    case ScalarFn::ceil:
    case ScalarFn::round: return x;
    case ScalarFn::neg: return wrapping_sub<T>(0, x);
    case ScalarFn::abs: return negative ? wrapping_sub<T>(0, x) : x;
    case ScalarFn::relu: return negative ? T{} : x;
    case ScalarFn::sign: return x == 0 ? T{} : negative ? static_cast<T>(-1) : T{1};
    case ScalarFn::clip: return std::min(std::max(x, saturated<T>(alpha)), saturated<T>(beta));
    case ScalarFn::linear:
      // Whole numbers stay exact beyond 2^53.
      if (alpha == std::trunc(alpha) && beta == std::trunc(beta)) {
        return wrapping_add(wrapping_mul(x, static_cast<T>(saturated<std::int64_t>(alpha))),
                            static_cast<T>(saturated<std::int64_t>(beta)));
      }
      return saturated<T>(std::trunc(alpha * static_cast<double>(x) + beta));
    case ScalarFn::add: return wrapping_add(x, y);
    case ScalarFn::sub: return wrapping_sub(x, y);
    case ScalarFn::mul: return wrapping_mul(x, y);
    case ScalarFn::div: return integer_quotient(x, y);
    case ScalarFn::pow: return integer_power(x, y);
    case ScalarFn::min: return std::min(x, y);
    case ScalarFn::max: return std::max(x, y);
    case ScalarFn::prelu: return negative ? wrapping_mul(x, y) : x;
    default: break;
  }
  throw Error(ErrorCode::unsupported, "the function has no meaning for integers");
}

template <class T>
T evaluate_as(ScalarFn fn, T x, T y, double alpha, double beta) {
  if constexpr (std::is_same_v<T, double>) {
    return evaluate(fn, x, y, alpha, beta);
  } else {
    return evaluate_integer(fn, x, y, alpha, beta);
  }
}

}  // namespace tilemesh::ops
