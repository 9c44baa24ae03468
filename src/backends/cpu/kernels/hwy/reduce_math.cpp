#include "reduce_math.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/hwy/reduce_math.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "partial-inl.hpp"
#include "vector_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tilemesh::cpu::highway::HWY_NAMESPACE {
namespace {

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;

constexpr std::int64_t kGroup = 4;              // rows
constexpr std::int64_t kGroupFloats = 4 << 10;  // half of the nearest cache
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// `step` takes an element in, `join` puts partial results together.
struct Sum {
  static constexpr float kEmpty = 0;
  template <class VN>
  static HWY_INLINE VN step(VN sum, VN x) {
    return hn::Add(sum, x);
  }
  template <class VN>
  static HWY_INLINE VN join(VN a, VN b) {
    return hn::Add(a, b);
  }
};
struct SumSquare {
  static constexpr float kEmpty = 0;
  template <class VN>
  static HWY_INLINE VN step(VN sum, VN x) {
    return hn::MulAdd(x, x, sum);
  }
  template <class VN>
  static HWY_INLINE VN join(VN a, VN b) {
    return hn::Add(a, b);
  }
};
struct SumAbs {
  static constexpr float kEmpty = 0;
  template <class VN>
  static HWY_INLINE VN step(VN sum, VN x) {
    return hn::Add(sum, hn::Abs(x));
  }
  template <class VN>
  static HWY_INLINE VN join(VN a, VN b) {
    return hn::Add(a, b);
  }
};
struct Max {  // NaN wins
  static constexpr float kEmpty = -kInfinity;
  template <class VN>
  static HWY_INLINE VN step(VN best, VN x) {
    return hn::IfThenElse(hn::IsNaN(best), best, larger(best, x));
  }
  template <class VN>
  static HWY_INLINE VN join(VN a, VN b) {
    return step(a, b);
  }
};
struct AnyMax {  // of a row with NaN, some number or NaN
  static constexpr float kEmpty = -kInfinity;
  template <class VN>
  static HWY_INLINE VN step(VN best, VN x) {
    return larger(best, x);
  }
  template <class VN>
  static HWY_INLINE VN join(VN a, VN b) {
    return larger(a, b);
  }
};
struct Min {
  static constexpr float kEmpty = kInfinity;
  template <class VN>
  static HWY_INLINE VN step(VN best, VN x) {
    return hn::IfThenElse(hn::IsNaN(best), best, smaller(best, x));
  }
  template <class VN>
  static HWY_INLINE VN join(VN a, VN b) {
    return step(a, b);
  }
};
struct Prod {
  static constexpr float kEmpty = 1;
  template <class VN>
  static HWY_INLINE VN step(VN product, VN x) {
    return hn::Mul(product, x);
  }
  template <class VN>
  static HWY_INLINE VN join(VN a, VN b) {
    return hn::Mul(a, b);
  }
};

/// All lanes of a vector reduced to one number: its halves are joined until four lanes are left,
/// those with their mirror images.
template <class F, class DN>
HWY_INLINE float all_lanes([[maybe_unused]] DN d, hn::Vec<DN> v) {
#if HWY_TARGET != HWY_SCALAR
  constexpr std::size_t kLanes = hn::MaxLanes(DN());
  if constexpr (kLanes > 4) {
    const hn::Half<DN> dh;
    return all_lanes<F>(dh, F::join(hn::LowerHalf(dh, v), hn::UpperHalf(dh, v)));
  }
  if constexpr (kLanes == 4) v = F::join(v, hn::Reverse4(d, v));
  if constexpr (kLanes >= 2) v = F::join(v, hn::Reverse2(d, v));
#endif
  return hn::GetLane(v);
}

template <class F>
HWY_INLINE float along_runs(const float* x, std::int64_t rows, std::int64_t stride,
                            std::int64_t count) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V sum0 = hn::Set(d, F::kEmpty);
  V sum1 = sum0;
  V sum2 = sum0;
  V sum3 = sum0;
  const std::int64_t left = count % lanes;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(left));
  for (std::int64_t r = 0; r < rows; ++r, x += stride) {
    std::int64_t i = 0;
    for (; i + 4 * lanes <= count; i += 4 * lanes) {
      sum0 = F::step(sum0, hn::LoadU(d, x + i));
      sum1 = F::step(sum1, hn::LoadU(d, x + i + lanes));
      sum2 = F::step(sum2, hn::LoadU(d, x + i + 2 * lanes));
      sum3 = F::step(sum3, hn::LoadU(d, x + i + 3 * lanes));
    }
    for (; i + lanes <= count; i += lanes) {
      sum0 = F::step(sum0, hn::LoadU(d, x + i));
    }
    if (left > 0) {
      const V stepped = F::step(sum1, load_part(d, x + i, left));
      sum1 = hn::IfThenElse(rest, stepped, sum1);
    }
  }
  return all_lanes<F>(d, F::join(F::join(sum0, sum1), F::join(sum2, sum3)));
}

template <class F>
float along(const float* x, std::int64_t rows, std::int64_t stride, std::int64_t count) {
  return along_runs<F>(x, rows, stride, count);
}

template <class F, int kVectors>
HWY_INLINE void across_columns(const float* x, std::int64_t rows, std::int64_t stride, float* sums,
                               bool more) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V v[std::size_t{kVectors}];
#pragma GCC unroll 4
  for (int k = 0; k < kVectors; ++k) {
    v[k] = more ? hn::LoadU(d, sums + k * lanes) : hn::Set(d, F::kEmpty);
  }
  for (std::int64_t r = 0; r < rows; ++r, x += stride) {
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) {
      v[k] = F::step(v[k], hn::LoadU(d, x + k * lanes));
    }
  }
#pragma GCC unroll 4
  for (int k = 0; k < kVectors; ++k) {
    hn::StoreU(v[k], d, sums + k * lanes);
  }
}

/// One vector's width of columns: four rows at a time, so that they don't wait for each other.
template <class F, class DN>
HWY_INLINE void across_column(DN d, const float* x, std::int64_t rows, std::int64_t stride,
                              float* sums, bool more) {
  auto v0 = more ? hn::LoadU(d, sums) : hn::Set(d, F::kEmpty);
  auto v1 = hn::Set(d, F::kEmpty);
  auto v2 = v1;
  auto v3 = v1;
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * stride) {
    v0 = F::step(v0, hn::LoadU(d, x));
    v1 = F::step(v1, hn::LoadU(d, x + stride));
    v2 = F::step(v2, hn::LoadU(d, x + 2 * stride));
    v3 = F::step(v3, hn::LoadU(d, x + 3 * stride));
  }
  for (; r < rows; ++r, x += stride) {
    v0 = F::step(v0, hn::LoadU(d, x));
  }
  hn::StoreU(F::join(F::join(v0, v1), F::join(v2, v3)), d, sums);
}

template <class F>
void across(const float* x, std::int64_t rows, std::int64_t stride, std::int64_t count, float* sums,
            bool more) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    across_columns<F, 4>(x + i, rows, stride, sums + i, more);
  }
  for (; i + lanes <= count; i += lanes) {
    across_column<F>(d, x + i, rows, stride, sums + i, more);
  }
  if constexpr (hn::MaxLanes(D()) == 16) {
    const hn::Half<D> dh;
    if (i + 8 <= count) {
      across_column<F>(dh, x + i, rows, stride, sums + i, more);
      i += 8;
    }
  }
  if (i == count) return;
  const std::int64_t left = count - i;
  V v = more ? load_part(d, sums + i, left) : hn::Set(d, F::kEmpty);
  for (std::int64_t r = 0; r < rows; ++r) {
    v = F::step(v, load_part(d, x + r * stride + i, left));
  }
  store_part(v, d, sums + i, left);
}

template <class F>
float join(float a, float b) {
  const D d;
  return hn::GetLane(F::join(hn::Set(d, a), hn::Set(d, b)));
}

template <class F>
ReduceFns fns_of() {
  return {.along = along<F>, .across = across<F>, .join = join<F>, .empty = F::kEmpty};
}

template <bool kStore>
HWY_INLINE V exponential(const float* x, [[maybe_unused]] float* y, V top) {
  const D d;
  const V e = exp_of_negative(d, hn::Sub(hn::LoadU(d, x), top));
  if constexpr (kStore) hn::StoreU(e, d, y);
  return e;
}

/// y = e^(x - top), where that is stored, and the sum of it. `top` is no less than any x; a NaN
/// among them makes the sum one.
template <bool kStore>
HWY_INLINE float exponentials(const float* x, float* y, std::int64_t count, float top) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V vtop = hn::Set(d, top);
  V sum0 = hn::Zero(d);
  V sum1 = hn::Zero(d);
  V sum2 = hn::Zero(d);
  V sum3 = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    sum0 = hn::Add(sum0, exponential<kStore>(x + i, y + i, vtop));
    sum1 = hn::Add(sum1, exponential<kStore>(x + i + lanes, y + i + lanes, vtop));
    sum2 = hn::Add(sum2, exponential<kStore>(x + i + 2 * lanes, y + i + 2 * lanes, vtop));
    sum3 = hn::Add(sum3, exponential<kStore>(x + i + 3 * lanes, y + i + 3 * lanes, vtop));
  }
  for (; i < count; i += lanes) {
    const std::int64_t left = count - i < lanes ? count - i : lanes;
    const auto rest = hn::FirstN(d, static_cast<std::size_t>(left));
    const V e = exp_of_negative(d, hn::Sub(load_part(d, x + i, left), vtop));
    if constexpr (kStore) store_part(e, d, y + i, left);
    sum0 = hn::Add(sum0, hn::IfThenElseZero(rest, e));
  }
  return all_lanes<Sum>(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)));
}

/// y = x * scale + bias
HWY_INLINE void affine(const float* x, float* y, std::int64_t count, V scale, V bias) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, x + i), scale, bias), d, y + i);
  }
  if (i == count) return;
  const std::int64_t left = count - i;
  store_part(hn::MulAdd(load_part(d, x + i, left), scale, bias), d, y + i, left);
}

/// Calls `body(first, count)` for groups of rows that stay in the nearest cache: while one row
/// waits for its sum, the next is under way.
template <class Body>
HWY_INLINE void for_groups(std::int64_t rows, std::int64_t count, const Body& body) {
  const std::int64_t group = count <= kGroupFloats / kGroup ? kGroup : 1;
  for (std::int64_t row = 0; row < rows; row += group) {
    body(row, row + group <= rows ? group : rows - row);
  }
}

void softmax(const float* x, float* y, std::int64_t rows, std::int64_t count) {
  const D d;
  for_groups(rows, count, [&](std::int64_t first, std::int64_t group) HWY_ATTR {
    float values[std::size_t{kGroup}];
    const float* from = x + first * count;
    float* to = y + first * count;
    for (std::int64_t r = 0; r < group; ++r) {
      values[r] = along_runs<AnyMax>(from + r * count, 1, 0, count);
    }
    for (std::int64_t r = 0; r < group; ++r) {
      values[r] = exponentials<true>(from + r * count, to + r * count, count, values[r]);
    }
    for (std::int64_t r = 0; r < group; ++r) {
      affine(to + r * count, to + r * count, count, hn::Set(d, 1.0f / values[r]), hn::Zero(d));
    }
  });
}

void log_softmax(const float* x, float* y, std::int64_t rows, std::int64_t count) {
  const D d;
  for (std::int64_t r = 0; r < rows; ++r, x += count, y += count) {
    const float top = along_runs<AnyMax>(x, 1, 0, count);
    const float sum = exponentials<false>(x, y, count, top);
    // The maximum is taken off first: with it in one number, the logarithm would be rounded away.
    affine(x, y, count, hn::Set(d, 1.0f), hn::Set(d, -top));
    affine(y, y, count, hn::Set(d, 1.0f), hn::Neg(log(d, hn::Set(d, sum))));
  }
}

HWY_INLINE float mean_of(const float* x, std::int64_t count) {
  return along_runs<Sum>(x, 1, 0, count) / static_cast<float>(count);
}

/// What normalises a row: (x - mean) * inverse - shift.
struct Moments {
  float mean = 0;
  float rest = 0;     ///< of the mean, beyond its rounding: much, beside the deviation, far from 0
  float inverse = 1;  ///< 1 / sqrt(variance + epsilon)
  float shift() const { return rest * inverse; }
  bool is_far() const { return rest != 0; }
};

/// The mean of x - mean.
inline float rest_of(const float* x, std::int64_t count, float mean) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V sum = hn::Zero(d);
  for (std::int64_t i = 0; i < count; i += lanes) {
    const std::int64_t left = count - i < lanes ? count - i : lanes;
    const auto own = hn::FirstN(d, static_cast<std::size_t>(left));
    sum =
        hn::Add(sum, hn::IfThenElseZero(own, hn::Sub(load_part(d, x + i, left), hn::Set(d, mean))));
  }
  return all_lanes<Sum>(d, sum) / static_cast<float>(count);
}

HWY_INLINE Moments moments_of(const float* x, std::int64_t count, float mean, float epsilon) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V vmean = hn::Set(d, mean);
  V sum0 = hn::Zero(d);
  V sum1 = hn::Zero(d);
  V sum2 = hn::Zero(d);
  V sum3 = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const V x0 = hn::Sub(hn::LoadU(d, x + i), vmean);
    const V x1 = hn::Sub(hn::LoadU(d, x + i + lanes), vmean);
    const V x2 = hn::Sub(hn::LoadU(d, x + i + 2 * lanes), vmean);
    const V x3 = hn::Sub(hn::LoadU(d, x + i + 3 * lanes), vmean);
    sum0 = hn::MulAdd(x0, x0, sum0);
    sum1 = hn::MulAdd(x1, x1, sum1);
    sum2 = hn::MulAdd(x2, x2, sum2);
    sum3 = hn::MulAdd(x3, x3, sum3);
  }
  for (; i < count; i += lanes) {
    const std::int64_t left = count - i < lanes ? count - i : lanes;
    const auto rest = hn::FirstN(d, static_cast<std::size_t>(left));
    const V x0 = hn::IfThenElseZero(rest, hn::Sub(load_part(d, x + i, left), vmean));
    sum0 = hn::MulAdd(x0, x0, sum0);
  }
  const V squares = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
  const float variance = all_lanes<Sum>(d, squares) / static_cast<float>(count);
  const float inverse = 1.0f / std::sqrt(variance + epsilon);
  // Nearer to 0, what the mean lost is within the rounding of the result. No number isn't farther.
  constexpr float kFar = 16;
  if (!(std::abs(mean) * inverse > kFar)) return {mean, 0, inverse};
  const float rest = rest_of(x, count, mean);
  const float centred = variance - rest * rest;
  return {mean, rest, 1.0f / std::sqrt((centred < 0 ? 0 : centred) + epsilon)};
}

/// One vector's width of so many rows, from their moments on.
template <bool kWhole, bool kFar>
HWY_INLINE void scale_columns(const LayerNormRows& rows, std::int64_t i, std::int64_t left,
                              const Moments* moments) {
  const D d;
  const auto load = [&](const float* from) HWY_ATTR {
    return kWhole ? hn::LoadU(d, from) : load_part(d, from, left);
  };
  const V scale = load(rows.scale + i);
  // -0 changes nothing, not even the sign of a 0.
  const V bias = rows.bias == nullptr ? hn::Set(d, -0.0f) : load(rows.bias + i);
  for (std::int64_t r = 0; r < rows.count; ++r) {
    const Moments& own = moments[r];
    const V x = hn::Sub(load(rows.x + r * rows.size + i), hn::Set(d, own.mean));
    const V inverse = hn::Set(d, own.inverse);
    const V unit = kFar ? hn::MulSub(x, inverse, hn::Set(d, own.shift())) : hn::Mul(x, inverse);
    const V y = hn::MulAdd(unit, scale, bias);
    if constexpr (kWhole) {
      hn::StoreU(y, d, rows.y + r * rows.size + i);
    } else {
      store_part(y, d, rows.y + r * rows.size + i, left);
    }
  }
}

template <bool kFar>
HWY_INLINE void scale_rows(const LayerNormRows& rows, const Moments* moments) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  std::int64_t i = 0;
  for (; i + lanes <= rows.size; i += lanes) {
    scale_columns<true, kFar>(rows, i, lanes, moments);
  }
  if (i < rows.size) {
    scale_columns<false, kFar>(rows, i, rows.size - i, moments);
  }
}

void layer_norm(const LayerNormRows& all, float epsilon, float* means, float* inverses) {
  for_groups(all.count, all.size, [&](std::int64_t first, std::int64_t count) HWY_ATTR {
    LayerNormRows rows = all;
    rows.x += first * rows.size;
    rows.y += first * rows.size;
    rows.count = count;
    Moments group[std::size_t{kGroup}];
    for (std::int64_t r = 0; r < count; ++r) {
      group[r].mean = mean_of(rows.x + r * rows.size, rows.size);
    }
    for (std::int64_t r = 0; r < count; ++r) {
      group[r] = moments_of(rows.x + r * rows.size, rows.size, group[r].mean, epsilon);
    }
    const bool is_far =
        std::any_of(group, group + count, [](const Moments& own) { return own.is_far(); });
    if (is_far) {
      scale_rows<true>(rows, group);
    } else {
      scale_rows<false>(rows, group);
    }
    for (std::int64_t r = 0; r < count; ++r) {
      if (means != nullptr) means[first + r] = group[r].mean + group[r].rest;
      if (inverses != nullptr) inverses[first + r] = group[r].inverse;
    }
  });
}

void instance_norm(const float* x, float scale, float bias, float* y, std::int64_t count,
                   float epsilon) {
  const D d;
  const Moments moments = moments_of(x, count, mean_of(x, count), epsilon);
  affine(x, y, count, hn::Set(d, 1.0f), hn::Set(d, -moments.mean));
  if (moments.is_far()) affine(y, y, count, hn::Set(d, 1.0f), hn::Set(d, -moments.rest));
  affine(y, y, count, hn::Set(d, moments.inverse * scale), hn::Set(d, bias));
}

}  // namespace
// NOLINTNEXTLINE(misc-use-internal-linkage): HWY_EXPORT needs its name
ReduceFns find_reduce_fns(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum_square: return fns_of<SumSquare>();
    case Reduction::sum_abs: return fns_of<SumAbs>();
    case Reduction::max: return fns_of<Max>();
    case Reduction::min: return fns_of<Min>();
    case Reduction::prod: return fns_of<Prod>();
    case Reduction::sum: break;
  }
  return fns_of<Sum>();
}
// NOLINTNEXTLINE(misc-use-internal-linkage)
RowFns find_row_fns() {
  return {.softmax = softmax,
          .log_softmax = log_softmax,
          .layer_norm = layer_norm,
          .instance_norm = instance_norm};
}
}  // namespace tilemesh::cpu::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tilemesh::cpu::highway {
namespace {
HWY_EXPORT(find_reduce_fns);
HWY_EXPORT(find_row_fns);
}  // namespace

ReduceFns reduce_fns(Reduction reduction) {
  return HWY_DYNAMIC_DISPATCH(find_reduce_fns)(reduction);
}

RowFns row_fns() {
  return HWY_DYNAMIC_DISPATCH(find_row_fns)();
}

}  // namespace tilemesh::cpu::highway
#endif
