#include "gelu.hpp"

#include "targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/hwy/gelu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "partial-inl.hpp"
#include "vector_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tilemesh::cpu::highway::HWY_NAMESPACE {
namespace {

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;

/// x P(x) with the normal distribution's P(x) = 1/2 + x q(x^2), where q is a polynomial fitted for
/// |x| <= 5, in s = 2 (x / 5)^2 - 1, so that its coefficients are small. Beyond, P is 0 or, within
/// 3e-7, 1.
HWY_INLINE V gelu_of(D d, V x) {
  constexpr float kEnd = 5.0f;
  const V bounded = at_most(d, kEnd, at_least(d, -kEnd, x));
  const V s =
      hn::MulSub(hn::Mul(bounded, bounded), hn::Set(d, 2 / (kEnd * kEnd)), hn::Set(d, 1.0f));
  const V q = horner(d, s, hn::Set(d, 6.087127258e-04f), -1.613260363e-03f, 1.722840243e-03f,
                     -2.685586922e-03f, 6.410467438e-03f, -1.116432901e-02f, 1.640219428e-02f,
                     -2.326865681e-02f, 3.144216910e-02f, -4.044260830e-02f, 5.152052268e-02f,
                     -7.029628009e-02f, 1.413637847e-01f);
  const V p = hn::MulAdd(bounded, q, hn::Set(d, 0.5f));
  return hn::Mul(x, hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -kEnd)), p));
}

void gelu_in_place(float* x, std::int64_t count) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  // Four at a time: one alone would wait for each of its steps.
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const V v0 = gelu_of(d, hn::LoadU(d, x + i));
    const V v1 = gelu_of(d, hn::LoadU(d, x + i + lanes));
    const V v2 = gelu_of(d, hn::LoadU(d, x + i + 2 * lanes));
    const V v3 = gelu_of(d, hn::LoadU(d, x + i + 3 * lanes));
    hn::StoreU(v0, d, x + i);
    hn::StoreU(v1, d, x + i + lanes);
    hn::StoreU(v2, d, x + i + 2 * lanes);
    hn::StoreU(v3, d, x + i + 3 * lanes);
  }
  for (; i < count; i += lanes) {
    const std::int64_t left = count - i < lanes ? count - i : lanes;
    store_part(gelu_of(d, load_part(d, x + i, left)), d, x + i, left);
  }
}

}  // namespace
// NOLINTNEXTLINE(misc-use-internal-linkage): HWY_EXPORT needs its name
GeluFn find_fast_gelu() {
  return gelu_in_place;
}
}  // namespace tilemesh::cpu::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tilemesh::cpu::highway {
namespace {
HWY_EXPORT(find_fast_gelu);
}  // namespace

GeluFn fast_gelu() {
  return HWY_DYNAMIC_DISPATCH(find_fast_gelu)();
}

}  // namespace tilemesh::cpu::highway
#endif
