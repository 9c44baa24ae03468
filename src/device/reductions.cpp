#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "tilemesh/device/host_exchange.hpp"
#include "tilemesh/types/dtype_traits.hpp"

namespace tilemesh::detail {

namespace {

constexpr std::size_t kBlockBytes = 4096;  // of accumulators: with some inputs they fit an L1 cache

template <class T>
constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/// What elements of type T are added up in, and how they lie in memory.
template <class T>
using Accumulator = std::conditional_t<kIsHalf<T>, float, T>;

template <class A>
A sum_of(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    using Word = std::make_unsigned_t<A>;
    return static_cast<A>(static_cast<Word>(static_cast<Word>(a) + static_cast<Word>(b)));
  } else {
    return a + b;
  }
}

template <class A>
A product_of(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    // Small words would be promoted to int, which overflows.
    using Word = std::conditional_t<(sizeof(A) < 4), std::uint32_t, std::make_unsigned_t<A>>;
    return static_cast<A>(static_cast<Word>(static_cast<Word>(a) * static_cast<Word>(b)));
  } else {
    return a * b;
  }
}

template <class A>
A larger_of(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    return a > b ? a : b;
  } else {
    return (a > b) | (a != a) ? a : b;  // NOLINT: NaN isn't equal to itself
  }
}

template <class A>
A smaller_of(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    return a < b ? a : b;
  } else {
    return (a < b) | (a != a) ? a : b;  // NOLINT
  }
}

template <ReduceOp Op, class A>
A combine(A a, A b) {
  if constexpr (Op == ReduceOp::max) {
    return larger_of(a, b);
  } else if constexpr (Op == ReduceOp::min) {
    return smaller_of(a, b);
  } else if constexpr (Op == ReduceOp::prod) {
    return product_of(a, b);
  } else {
    return sum_of(a, b);
  }
}

template <ReduceOp Op, class T>
void reduce(const Reduction& reduction) {
  using A = Accumulator<T>;
  constexpr std::int64_t kBlock = kBlockBytes / sizeof(A);
  alignas(64) A sums[kBlockBytes / sizeof(A)];
  for (std::int64_t begin = 0; begin < reduction.elements; begin += kBlock) {
    const std::int64_t some = std::min(kBlock, reduction.elements - begin);
    const auto* const first = reinterpret_cast<const T*>(reduction.inputs[0]) + begin;  // NOLINT
    for (std::int64_t i = 0; i < some; ++i) {
      sums[i] = static_cast<A>(first[i]);
    }
    for (const std::byte* const input : reduction.inputs.subspan(1)) {
      const auto* const next = reinterpret_cast<const T*>(input) + begin;  // NOLINT
      for (std::int64_t i = 0; i < some; ++i) {
        sums[i] = combine<Op>(sums[i], static_cast<A>(next[i]));
      }
    }
    for (std::byte* const output : reduction.outputs) {
      auto* const result = reinterpret_cast<T*>(output) + begin;  // NOLINT
      for (std::int64_t i = 0; i < some; ++i) {
        if constexpr (Op == ReduceOp::mean) {
          result[i] = static_cast<T>(sums[i] / static_cast<A>(reduction.inputs.size()));
        } else {
          result[i] = static_cast<T>(sums[i]);
        }
      }
    }
  }
}

template <class T>
ReduceFunction function_for(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return reduce<ReduceOp::sum, T>;
    case ReduceOp::max: return reduce<ReduceOp::max, T>;
    case ReduceOp::min: return reduce<ReduceOp::min, T>;
    case ReduceOp::prod: return reduce<ReduceOp::prod, T>;
    case ReduceOp::mean:
      if constexpr (!std::is_integral_v<T>) {
        return reduce<ReduceOp::mean, T>;
      }
      throw Error(ErrorCode::unsupported,
                  fmt::format("the mean of {} elements over devices: only floats have one; reduce "
                              "by sum and divide",
                              to_string(kDTypeOf<T>)));
  }
  check_failed("op", "a reduction outside the enumeration", __FILE__, __LINE__);
}

/// A bool is a byte of 0 or 1: the largest is any, the smallest all.
ReduceOp of_bytes(ReduceOp op) {
  return op == ReduceOp::sum ? ReduceOp::max : op == ReduceOp::prod ? ReduceOp::min : op;
}

template <class T>
T limit(bool highest) {
  using Limits = std::numeric_limits<T>;
  if constexpr (kIsHalf<T>) {
    return T(limit<float>(highest));
  } else if constexpr (Limits::has_infinity) {
    return highest ? Limits::infinity() : -Limits::infinity();
  } else {
    return highest ? Limits::max() : Limits::lowest();
  }
}

template <class T>
T neutral(ReduceOp op) {
  switch (op) {
    case ReduceOp::max: return limit<T>(false);
    case ReduceOp::min: return limit<T>(true);
    case ReduceOp::prod: return static_cast<T>(1.0F);
    default: return static_cast<T>(0.0F);
  }
}

}  // namespace

ReduceFunction plain_reduction(ReduceOp op, DType dtype) {
  if (dtype == DType::boolean && op != ReduceOp::mean) {
    return function_for<std::uint8_t>(of_bytes(op));
  }
  if (is_storage(dtype)) {
    throw Error(ErrorCode::unsupported,
                fmt::format("a reduction of {} elements over devices: convert them first",
                            to_string(dtype)));
  }
  return visit_dtype(dtype, [op]<class T>(std::type_identity<T>) -> ReduceFunction {
    if constexpr (std::is_same_v<T, bool>) {
      throw Error(ErrorCode::unsupported,
                  "the mean of bool elements over devices: reduce by sum (any) or prod (all)");
    } else {
      return function_for<T>(op);
    }
  });
}

std::array<std::byte, 8> neutral_element(ReduceOp op, DType dtype) {
  std::array<std::byte, 8> bytes{};
  if (is_storage(dtype)) return bytes;  // never reduced
  visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    const T element = neutral<T>(op);
    std::memcpy(bytes.data(), &element, sizeof(T));
  });
  return bytes;
}

}  // namespace tilemesh::detail
