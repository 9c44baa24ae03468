// Vector functions on f32, for the target that is being compiled. Each takes every value: NaN gives
// NaN, infinities their limits. Polynomials are minimax fits made for this file; the errors named
// are the largest that dense sweeps against double precision have shown.

#if defined(TILEMESH_HWY_VECTOR_MATH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEMESH_HWY_VECTOR_MATH_INL
#undef TILEMESH_HWY_VECTOR_MATH_INL
#else
#define TILEMESH_HWY_VECTOR_MATH_INL
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tilemesh::cpu::highway::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The larger and the smaller of two, and b where either is NaN: what the instructions of x86 do,
// and close to what others do (who keep every NaN); so with x as b, a NaN in x stays.
template <class V>
HWY_INLINE V larger(V a, V b) {
#if HWY_TARGET == HWY_SCALAR
  return hn::IfThenElse(hn::Gt(a, b), a, b);
#else
  return hn::Max(a, b);
#endif
}
template <class V>
HWY_INLINE V smaller(V a, V b) {
#if HWY_TARGET == HWY_SCALAR
  return hn::IfThenElse(hn::Lt(a, b), a, b);
#else
  return hn::Min(a, b);
#endif
}
template <class D, class V>
HWY_INLINE V at_least(D d, float low, V x) {
  return larger(hn::Set(d, low), x);
}
template <class D, class V>
HWY_INLINE V at_most(D d, float high, V x) {
  return smaller(hn::Set(d, high), x);
}

template <class D, class V>
HWY_INLINE V horner(D, V, V sum) {
  return sum;
}
/// sum * x^n + c[0] * x^(n-1) + ... by Horner's rule.
template <class D, class V, class... Rest>
HWY_INLINE V horner(D d, V x, V sum, float c, Rest... rest) {
  return horner(d, x, hn::MulAdd(sum, x, hn::Set(d, c)), rest...);
}

template <class D, class VI>
HWY_INLINE auto power_of_two(D d, VI exponent) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(exponent, hn::Set(di, 127))));
}

/// 1 ulp, with results down to the smallest subnormal.
template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  const V clamped = at_most(d, 89.0f, at_least(d, -104.0f, x));
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
  const hn::RebindToSigned<D> di;
  const V magic = hn::Set(d, 12582912.0f);
  const V shifted = hn::MulAdd(clamped, hn::Set(d, 1.44269504088896341f), magic);
  const V n = hn::Sub(shifted, magic);
  const auto q = hn::Sub(hn::BitCast(di, shifted), hn::BitCast(di, magic));
  // ln(2) in two parts, the first short enough that n times it is exact.
  const V high = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), clamped);
  const V r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), high);
  const V p = horner(d, r, hn::Set(d, 1.395171725e-03f), 8.369598410e-03f, 4.166618728e-02f,
                     1.666651289e-01f, 5.000000101e-01f);
  const V fraction = hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), hn::Set(d, 1.0f));
  // 2^q in two factors, since q reaches beyond what one exponent holds.
  const auto half = hn::ShiftRight<1>(q);
  return hn::Mul(hn::Mul(fraction, power_of_two(d, half)), power_of_two(d, hn::Sub(q, half)));
}

/// e^x for x <= 0, or NaN: 2 ulp; 0 where the result would be subnormal. Two thirds of exp's work.
template <class D, class V>
HWY_INLINE V exp_of_negative(D d, V x) {
  const hn::RebindToSigned<D> di;
  // As in exp, and the bias of an exponent more.
  const V magic = hn::Set(d, 12582912.0f + 127.0f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504088896341f), magic);
  const V n = hn::Sub(shifted, magic);
  const V high = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  const V r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), high);
  const V p = horner(d, r, hn::Set(d, 1.395171725e-03f), 8.369598410e-03f, 4.166618728e-02f,
                     1.666651289e-01f, 5.000000101e-01f, 1.0f, 1.0f);
  // The nearest integer, moved to where an exponent's bits are: nothing else of `shifted` stays.
  // The product keeps NaN, whatever its bits; a sum of bits would not.
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3f)), hn::Mul(p, power));
}

/// 2 ulp.
template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V e = exp(d, hn::Neg(hn::Abs(x)));
  const V numerator = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one);
  return hn::Div(numerator, hn::Add(one, e));
}

/// 2 ulp.
template <class D, class V>
HWY_INLINE V tanh(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V a = hn::Abs(x);
  const V square = hn::Mul(a, a);
  const V p = horner(d, square, hn::Set(d, -5.717036566e-03f), 2.065057901e-02f, -5.374349526e-02f,
                     1.333149125e-01f, -3.333328392e-01f);
  const V near = hn::MulAdd(hn::Mul(a, square), p, a);
  const V e = exp(d, hn::Add(a, a));
  const V far = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one)));
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.625f)), near, far), x);
}

/// erf(x) / x - 1 for |x| <= 1, from x squared.
template <class D, class V>
HWY_INLINE V erf_near(D d, V square) {
  return horner(d, square, hn::Set(d, 7.889119521e-05f), -8.020841276e-04f, 5.189535339e-03f,
                -2.685444459e-02f, 1.128360018e-01f, -3.761262714e-01f, 1.283791659e-01f);
}

/// erfc(a) for a >= 0.95, with a small relative error also where it is tiny: e^(-a^2 + g(a)) with
/// g(a) = ln(erfc(a) e^(a^2)).
template <class D, class V>
HWY_INLINE V erfc_far(D d, V a) {
  const V bounded = at_most(d, 7.0f, a);
  const V g = horner(d, bounded, hn::Set(d, 5.326322705e-09f), -2.678943750e-07f, 6.132354848e-06f,
                     -8.489642778e-05f, 7.977372294e-04f, -5.423409733e-03f, 2.785308593e-02f,
                     -1.120811417e-01f, 3.699118247e-01f, -1.131081667e+00f, 4.970434011e-04f);
  const V reach = at_most(d, 15.0f, a);
  const V square = hn::Mul(reach, reach);
  const V rounding = hn::MulSub(reach, reach, square);  // what the square lost; 0 without FMA
  const V e = exp(d, hn::Sub(g, square));
  return hn::NegMulAdd(e, rounding, e);
}

/// 2 ulp.
template <class D, class V>
HWY_INLINE V erf(D d, V x) {
  const V a = hn::Abs(x);
  const V near = hn::MulAdd(a, erf_near(d, hn::Mul(a, a)), a);
  const V far = hn::Sub(hn::Set(d, 1.0f), erfc_far(d, a));
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.95f)), near, far), x);
}

/// x/2 (1 + erf(x / sqrt(2))), exact in the tail as well.
template <class D, class V>
HWY_INLINE V gelu(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V half = hn::Mul(x, hn::Set(d, 0.5f));
  const V a = hn::Mul(hn::Abs(x), hn::Set(d, 0.70710678118654752f));
  const V erf_of_a = hn::MulAdd(a, erf_near(d, hn::Mul(a, a)), a);
  const V near = hn::Add(one, hn::CopySign(erf_of_a, x));
  const V tail = erfc_far(d, a);
  const V far = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(hn::Set(d, 2.0f), tail));
  return hn::Mul(half, hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.95f)), near, far));
}

/// x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3), which is the tanh form.
template <class D, class V>
HWY_INLINE V gelu_tanh(D d, V x) {
  const V cubic = hn::MulAdd(hn::Mul(x, x), hn::Set(d, 0.044715f), hn::Set(d, 1.0f));
  const V twice_u = hn::Mul(hn::Mul(x, cubic), hn::Set(d, 1.59576912160573071f));
  return hn::Mul(x, sigmoid(d, twice_u));
}

/// 4 ulp; ln(0) = -infinity, NaN below.
template <class D, class V>
HWY_INLINE V log(D d, V x) {
  const V zero = hn::Zero(d);
  const V infinity = hn::Set(d, hwy::HighestValue<float>() * 2.0f);
  V result = hn::Log(d, x);
  result = hn::IfThenElse(hn::Eq(x, infinity), infinity, result);
  result = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), result);
  return hn::IfThenElse(hn::Ge(x, zero), result, hn::NaN(d));
}

/// e^x - 1.
template <class D, class V>
HWY_INLINE V expm1(D d, V x) {
  const V p = horner(d, x, hn::Set(d, 1.991937994e-04f), 1.394722492e-03f, 8.333262638e-03f,
                     4.166625376e-02f, 1.666666687e-01f, 5.000000083e-01f);
  const V near = hn::MulAdd(hn::Mul(x, x), p, x);
  const V far = hn::Sub(exp(d, x), hn::Set(d, 1.0f));
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 0.35f)), near, far);
}

/// ln(1 + e^x).
template <class D, class V>
HWY_INLINE V softplus(D d, V x) {
  const V e = exp(d, hn::Neg(hn::Abs(x)));
  return hn::Add(at_least(d, 0.0f, x), hn::Log1p(d, e));
}

}  // namespace tilemesh::cpu::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
