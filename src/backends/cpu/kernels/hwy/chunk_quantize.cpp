#include "chunk_quantize.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/hwy/chunk_quantize.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tilemesh::cpu::highway::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<D>;
using V = hn::Vec<D>;
using VI = hn::Vec<DI>;

template <class T>
const T* at(const ChunkArgs& args, std::size_t k) {
  return reinterpret_cast<const T*>(args.in[k]);
}

template <class T>
HWY_INLINE VI load_integers(const T* from) {
  const DI di;
  if constexpr (std::is_same_v<T, std::int32_t>) {
    return hn::LoadU(di, from);
  } else {
    return hn::PromoteTo(di, hn::LoadU(hn::Rebind<T, DI>(), from));
  }
}

/// The steps of an input: 0 for one that is the same for all.
struct Steps {
  explicit Steps(const ChunkArgs& args) {
    for (std::size_t k = 0; k < 3; ++k) {
      by[k] = (args.uniform >> k & 1) != 0 ? 0 : 1;
    }
  }
  std::size_t by[3];
};

/// How reals come about that are rounded: x / scale, or sum * multiplier.
struct Quotient {
  using From = float;
  static HWY_INLINE V of(const float* x, V scale) { return hn::Div(hn::LoadU(D(), x), scale); }
  static float of_one(float x, float scale) { return x / scale; }
};
struct Product {
  using From = std::int32_t;
  static HWY_INLINE V of(const std::int32_t* x, V scale) {
    return hn::Mul(hn::ConvertTo(D(), hn::LoadU(DI(), x)), scale);
  }
  static float of_one(std::int32_t x, float scale) { return static_cast<float>(x) * scale; }
};

template <class T>
T rounded(float value, std::int32_t zero_point) {
  const auto low = static_cast<float>(std::numeric_limits<T>::min() - zero_point);
  const auto high = static_cast<float>(std::numeric_limits<T>::max() - zero_point);
  const float held = value > low ? std::min(value, high) : low;  // NaN: the lowest
  return static_cast<T>(static_cast<std::int32_t>(std::nearbyint(held)) + zero_point);
}

/// Rounds `value`, held where adding the zero point stays in T, and adds that.
template <class T>
HWY_INLINE void store_rounded(V value, V low, V high, VI zero_point, T* to) {
  const V held = hn::Min(hn::IfThenElse(hn::Gt(value, low), value, low), high);
  const VI moved = hn::Add(hn::NearestInt(held), zero_point);
  hn::StoreU(hn::DemoteTo(hn::Rebind<T, DI>(), moved), hn::Rebind<T, DI>(), to);
}

template <class T>
HWY_INLINE V limit(T end, VI zero_point) {
  return hn::ConvertTo(D(), hn::Sub(hn::Set(DI(), std::int32_t{end}), zero_point));
}

template <class Real, class T>
void round_all(const ChunkArgs& args) {
  using From = typename Real::From;
  const D d;
  const DI di;
  const std::size_t lanes = hn::Lanes(d);
  const auto count = static_cast<std::size_t>(args.count);
  const Steps steps(args);
  const auto* x = at<From>(args, 0);
  const auto* scale = at<float>(args, 1);
  const auto* zero = at<T>(args, 2);
  auto* y = reinterpret_cast<T*>(args.out);
  constexpr T kLow = std::numeric_limits<T>::min();
  constexpr T kHigh = std::numeric_limits<T>::max();
  const bool one_parameter = steps.by[1] == 0 && (zero == nullptr || steps.by[2] == 0);
  const bool many_scales = steps.by[1] == 1 && zero == nullptr;
  std::size_t i = 0;
  if (steps.by[0] == 1 && one_parameter) {
    const V scales = hn::Set(d, *scale);
    const VI zeros = hn::Set(di, zero == nullptr ? 0 : std::int32_t{*zero});
    const V low = limit(kLow, zeros);
    const V high = limit(kHigh, zeros);
    for (; i + lanes <= count; i += lanes) {
      store_rounded(Real::of(x + i, scales), low, high, zeros, y + i);
    }
  } else if (steps.by[0] == 1 && (many_scales || (steps.by[1] == 1 && steps.by[2] == 1))) {
    for (; i + lanes <= count; i += lanes) {
      const VI zeros = zero == nullptr ? hn::Zero(di) : load_integers(zero + i);
      store_rounded(Real::of(x + i, hn::LoadU(d, scale + i)), limit(kLow, zeros),
                    limit(kHigh, zeros), zeros, y + i);
    }
  }
  for (; i < count; ++i) {
    const std::int32_t zero_point = zero == nullptr ? 0 : zero[i * steps.by[2]];
    y[i] = rounded<T>(Real::of_one(x[i * steps.by[0]], scale[i * steps.by[1]]), zero_point);
  }
}

template <class T>
void dequantize(const ChunkArgs& args) {
  const D d;
  const DI di;
  const std::size_t lanes = hn::Lanes(d);
  const auto count = static_cast<std::size_t>(args.count);
  const Steps steps(args);
  const auto* x = at<T>(args, 0);
  const auto* scale = at<float>(args, 1);
  const auto* zero = at<T>(args, 2);
  auto* y = reinterpret_cast<float*>(args.out);
  std::size_t i = 0;
  // Differences of 32 bits could overflow: those go one by one.
  const bool in_lanes = steps.by[0] == 1 && (sizeof(T) < 4 || zero == nullptr);
  if (in_lanes && steps.by[1] == 0 && (zero == nullptr || steps.by[2] == 0)) {
    const V scales = hn::Set(d, *scale);
    const VI zeros = hn::Set(di, zero == nullptr ? 0 : std::int32_t{*zero});
    for (; i + lanes <= count; i += lanes) {
      const VI difference = hn::Sub(load_integers(x + i), zeros);
      hn::StoreU(hn::Mul(hn::ConvertTo(d, difference), scales), d, y + i);
    }
  } else if (in_lanes && steps.by[1] == 1 && (zero == nullptr || steps.by[2] == 1)) {
    for (; i + lanes <= count; i += lanes) {
      const VI zeros = zero == nullptr ? hn::Zero(di) : load_integers(zero + i);
      const VI difference = hn::Sub(load_integers(x + i), zeros);
      hn::StoreU(hn::Mul(hn::ConvertTo(d, difference), hn::LoadU(d, scale + i)), d, y + i);
    }
  }
  for (; i < count; ++i) {
    const std::int64_t zero_point = zero == nullptr ? 0 : zero[i * steps.by[2]];
    const auto difference = static_cast<float>(x[i * steps.by[0]] - zero_point);
    y[i] = difference * scale[i * steps.by[1]];
  }
}

/// The lanes from element `i` on of an input that has a step, or its one element in all lanes.
HWY_INLINE V lanes_of(const float* x, std::size_t i, std::size_t step) {
  return step == 0 ? hn::Set(D(), *x) : hn::LoadU(D(), x + i);
}
template <class T>
HWY_INLINE V lanes_of(const T* x, std::size_t i, std::size_t step) {
  return step == 0 ? hn::Set(D(), static_cast<float>(*x))
                   : hn::ConvertTo(D(), load_integers(x + i));
}

template <class T>
void multiply_add(const ChunkArgs& args) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const auto count = static_cast<std::size_t>(args.count);
  const auto& by = Steps(args).by;
  const auto* x = at<T>(args, 0);
  const auto* scale = at<float>(args, 1);
  const auto* rest = at<float>(args, 2);
  auto* y = reinterpret_cast<float*>(args.out);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const V factor = lanes_of(scale, i, by[1]);
    hn::StoreU(hn::MulAdd(lanes_of(x, i, by[0]), factor, lanes_of(rest, i, by[2])), d, y + i);
  }
  for (; i < count; ++i) {
    y[i] = std::fma(static_cast<float>(x[i * by[0]]), scale[i * by[1]], rest[i * by[2]]);
  }
}

template <class T>
void subtract(const ChunkArgs& args) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const auto count = static_cast<std::size_t>(args.count);
  const auto& by = Steps(args).by;
  constexpr T kNone = 0;
  const auto* x = at<T>(args, 0);
  const bool has_zero = args.in[1] != nullptr;
  const T* zero = has_zero ? at<T>(args, 1) : &kNone;
  const std::size_t zero_step = has_zero ? by[1] : 0;
  auto* y = reinterpret_cast<float*>(args.out);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Sub(lanes_of(x, i, by[0]), lanes_of(zero, i, zero_step)), d, y + i);
  }
  for (; i < count; ++i) {
    y[i] = static_cast<float>(x[i * by[0]]) - static_cast<float>(zero[i * zero_step]);
  }
}

template <class T>
void round_alone(const ChunkArgs& args) {
  const D d;
  const DI di;
  const std::size_t lanes = hn::Lanes(d);
  const auto count = static_cast<std::size_t>(args.count);
  const std::size_t step = Steps(args).by[0];
  const auto* x = at<float>(args, 0);
  auto* y = reinterpret_cast<T*>(args.out);
  const VI zeros = hn::Zero(di);
  const V low = limit(std::numeric_limits<T>::min(), zeros);
  const V high = limit(std::numeric_limits<T>::max(), zeros);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    store_rounded(lanes_of(x, i, step), low, high, zeros, y + i);
  }
  for (; i < count; ++i) {
    y[i] = rounded<T>(x[i * step], 0);
  }
}

/// `Function<T>` for the type of `dtype`; null for one that isn't quantized to.
template <template <class> class Function>
ChunkFn of_quantized(DType dtype) {
  switch (dtype) {
    case DType::u8: return Function<std::uint8_t>::call;
    case DType::i8: return Function<std::int8_t>::call;
    case DType::u16: return Function<std::uint16_t>::call;
    case DType::i16: return Function<std::int16_t>::call;
    default: return nullptr;
  }
}
template <class T>
struct MultiplyAdd {
  static void call(const ChunkArgs& args) { multiply_add<T>(args); }
};
template <class T>
struct Subtract {
  static void call(const ChunkArgs& args) { subtract<T>(args); }
};
template <class T>
struct RoundAlone {
  static void call(const ChunkArgs& args) { round_alone<T>(args); }
};

template <class Real>
ChunkFn rounding_chunk(DType dtype) {
  switch (dtype) {
    case DType::u8: return round_all<Real, std::uint8_t>;
    case DType::i8: return round_all<Real, std::int8_t>;
    case DType::u16: return round_all<Real, std::uint16_t>;
    case DType::i16: return round_all<Real, std::int16_t>;
    default: return nullptr;
  }
}

}  // namespace
// NOLINTBEGIN(misc-use-internal-linkage): HWY_EXPORT needs their names
ChunkFn find_quantize_chunk(DType dtype) {
  return rounding_chunk<Quotient>(dtype);
}
ChunkFn find_requantize_chunk(DType dtype) {
  return rounding_chunk<Product>(dtype);
}
ChunkFn find_dequantize_chunk(DType dtype) {
  switch (dtype) {
    case DType::u8: return dequantize<std::uint8_t>;
    case DType::i8: return dequantize<std::int8_t>;
    case DType::u16: return dequantize<std::uint16_t>;
    case DType::i16: return dequantize<std::int16_t>;
    case DType::i32: return dequantize<std::int32_t>;
    default: return nullptr;
  }
}
ChunkFn find_multiply_add_chunk(DType dtype) {
  return of_quantized<MultiplyAdd>(dtype);
}
ChunkFn find_difference_chunk(DType dtype) {
  return of_quantized<Subtract>(dtype);
}
ChunkFn find_round_chunk(DType dtype) {
  return of_quantized<RoundAlone>(dtype);
}
// NOLINTEND(misc-use-internal-linkage)
}  // namespace tilemesh::cpu::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tilemesh::cpu::highway {
namespace {
HWY_EXPORT(find_quantize_chunk);
HWY_EXPORT(find_requantize_chunk);
HWY_EXPORT(find_dequantize_chunk);
HWY_EXPORT(find_multiply_add_chunk);
HWY_EXPORT(find_difference_chunk);
HWY_EXPORT(find_round_chunk);
}  // namespace

ChunkFn quantize_chunk(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(find_quantize_chunk)(dtype);
}
ChunkFn requantize_chunk(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(find_requantize_chunk)(dtype);
}
ChunkFn dequantize_chunk(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(find_dequantize_chunk)(dtype);
}
ChunkFn multiply_add_chunk(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(find_multiply_add_chunk)(dtype);
}
ChunkFn difference_chunk(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(find_difference_chunk)(dtype);
}
ChunkFn round_chunk(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(find_round_chunk)(dtype);
}

}  // namespace tilemesh::cpu::highway
#endif
