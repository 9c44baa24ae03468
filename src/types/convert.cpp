#include "convert.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "tilemesh/types/dtype_traits.hpp"

#include "narrow_convert.hpp"

namespace tilemesh::detail {
namespace {

// A byte that isn't 0 or 1 read as bool would be undefined, so that bools move as this.
enum class Truth : std::uint8_t {};

template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, Truth, T>;

template <class T>
constexpr bool kIsSmallFloat = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/// The float next to `value` towards an odd last bit, so that rounding it once more to fewer bits
/// gives what rounding `value` itself would give.
float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const auto back = static_cast<double>(nearest);
  auto word = std::bit_cast<std::uint32_t>(nearest);
  if (back == value || std::isnan(value) || std::isinf(value)) return nearest;
  if (std::fabs(back) > std::fabs(value)) --word;
  return std::bit_cast<float>(word | 1u);
}

/// A number as a double whose last bit stands for all that was cut: of 64-bit integers 11 bits may
/// not fit.
template <class I>
double to_double_odd(I value) {
  if constexpr (sizeof(I) < 8 || std::is_floating_point_v<I>) {
    return static_cast<double>(value);
  } else {
    constexpr I kLow = 0x7ff;
    constexpr I kExact = I{1} << 53;
    bool fits = value <= kExact;
    if constexpr (std::is_signed_v<I>) fits = fits && value >= -kExact;
    if (fits || (value & kLow) == 0) return static_cast<double>(value);
    return static_cast<double>((value & ~kLow) | (kLow + 1));
  }
}

/// Truncates towards zero, stops at the ends of I; NaN gives 0. Selects only: it vectorizes.
template <class I, class F>
I saturate(F value) {
  constexpr I kMin = std::numeric_limits<I>::min();
  constexpr I kMax = std::numeric_limits<I>::max();
  // Powers of two (or zero), so they are exact; kAbove is the first float past the end.
  constexpr auto kBelow = static_cast<F>(kMin);
  constexpr F kAbove = static_cast<F>(kMax / 2 + 1) * F{2};
  const bool low = !(value >= kBelow);  // NaN too
  const bool high = value >= kAbove;
  const I inside = static_cast<I>(low || high ? F{0} : value);
  const I lowest = value < kBelow ? kMin : I{0};
  return high ? kMax : (low ? lowest : inside);
}

template <class S>
auto widen(S value) {
  if constexpr (kIsSmallFloat<S>) {
    return static_cast<float>(value);
  } else if constexpr (std::is_same_v<S, Truth>) {
    return std::min(static_cast<std::uint8_t>(value), std::uint8_t{1});  // as bool, but vectorized
  } else {
    return value;
  }
}

template <class S, class T>
T convert(S value) {
  const auto wide = widen(value);
  using Wide = std::remove_const_t<decltype(wide)>;
  if constexpr (std::is_same_v<T, Truth>) {
    return static_cast<Truth>(wide != Wide{0});
  } else if constexpr (kIsSmallFloat<T>) {
    if constexpr (std::is_same_v<Wide, float> || sizeof(Wide) <= 2) {
      return T(static_cast<float>(wide));
    } else {
      return T(round_to_odd(to_double_odd(wide)));
    }
  } else if constexpr (std::is_integral_v<T> && std::is_floating_point_v<Wide>) {
    return saturate<T>(wide);
  } else {
    return static_cast<T>(wide);
  }
}

template <class S, class T>
[[gnu::always_inline]] inline void run_loop(const std::byte* source, std::byte* target,
                                            std::int64_t count) {
  const auto* __restrict from = reinterpret_cast<const S*>(source);
  auto* __restrict to = reinterpret_cast<T*>(target);
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = convert<S, T>(from[i]);
}

template <class S, class T>
void run(const std::byte* source, std::byte* target, std::int64_t count) {
  run_loop<S, T>(source, target, count);
}

#if defined(__x86_64__)
/// The same loop for vectors of twice the size.
template <class S, class T>
[[gnu::target("avx2")]] void run_avx2(const std::byte* source, std::byte* target,
                                      std::int64_t count) {
  run_loop<S, T>(source, target, count);
}
#endif

template <class S>
void run_odd(const std::byte* source, std::byte* target, std::int64_t count) {
  const auto* from = reinterpret_cast<const S*>(source);
  auto* to = reinterpret_cast<float*>(target);
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = round_to_odd(to_double_odd(from[i]));
}

template <class T>
void run_copy(const std::byte* source, std::byte* target, std::int64_t count) {
  std::memcpy(target, source, static_cast<std::size_t>(count) * sizeof(T));
}

template <class S, class T>
ConvertRun pick_run() {
  if constexpr (std::is_same_v<S, T>) {
    return run_copy<T>;
  } else {
#if defined(__x86_64__)
    static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
    if (has_avx2) return run_avx2<S, T>;
#endif
    return run<S, T>;
  }
}

}  // namespace

ConvertRun convert_run(DType source, DType target) {
  if (is_storage(source) || is_storage(target)) return narrow_run(source, target);
  return visit_dtype(source, [&](auto from) {
    return visit_dtype(target, [&](auto to) -> ConvertRun {
      return pick_run<Stored<typename decltype(from)::type>, Stored<typename decltype(to)::type>>();
    });
  });
}

ConvertRun odd_float_run(DType source) {
  return visit_dtype(source, [&](auto from) -> ConvertRun {
    using S = typename decltype(from)::type;
    if constexpr (std::is_same_v<S, double> || (std::is_integral_v<S> && sizeof(S) >= 4)) {
      return run_odd<S>;
    } else {
      return convert_run(source, DType::f32);
    }
  });
}

}  // namespace tilemesh::detail
