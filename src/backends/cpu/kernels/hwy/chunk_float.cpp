#include <cmath>

#include "chunk.hpp"
#include "targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/hwy/chunk_float.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "partial-inl.hpp"
#include "vector_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tilemesh::cpu::highway::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

/// The constants of a step.
struct Parameters {
  V alpha, beta;
};

struct Identity {
  static HWY_INLINE V call(D, V x, Parameters) { return x; }
};
struct Neg {
  static HWY_INLINE V call(D, V x, Parameters) { return hn::Neg(x); }
};
struct Abs {
  static HWY_INLINE V call(D, V x, Parameters) { return hn::Abs(x); }
};
struct Exp {
  static HWY_INLINE V call(D d, V x, Parameters) { return exp(d, x); }
};
struct Log {
  static HWY_INLINE V call(D d, V x, Parameters) { return log(d, x); }
};
struct Sqrt {
  static HWY_INLINE V call(D, V x, Parameters) { return hn::Sqrt(x); }
};
struct Reciprocal {
  static HWY_INLINE V call(D d, V x, Parameters) { return hn::Div(hn::Set(d, 1.0f), x); }
};
struct Erf {
  static HWY_INLINE V call(D d, V x, Parameters) { return erf(d, x); }
};
struct Relu {
  static HWY_INLINE V call(D d, V x, Parameters) { return at_least(d, 0.0f, x); }
};
struct LeakyRelu {
  static HWY_INLINE V call(D d, V x, Parameters p) {
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(p.alpha, x), x);
  }
};
struct Sigmoid {
  static HWY_INLINE V call(D d, V x, Parameters) { return sigmoid(d, x); }
};
struct HardSigmoid {
  static HWY_INLINE V call(D d, V x, Parameters p) {
    return at_most(d, 1.0f, at_least(d, 0.0f, hn::MulAdd(p.alpha, x, p.beta)));
  }
};
struct HardSwish {
  static HWY_INLINE V call(D d, V x, Parameters) {
    const V ramp = hn::MulAdd(x, hn::Set(d, 1.0f / 6), hn::Set(d, 0.5f));
    return hn::Mul(x, at_most(d, 1.0f, at_least(d, 0.0f, ramp)));
  }
};
struct Tanh {
  static HWY_INLINE V call(D d, V x, Parameters) { return tanh(d, x); }
};
struct Gelu {
  static HWY_INLINE V call(D d, V x, Parameters) { return gelu(d, x); }
};
struct GeluTanh {
  static HWY_INLINE V call(D d, V x, Parameters) { return gelu_tanh(d, x); }
};
struct Clip {
  static HWY_INLINE V call(D, V x, Parameters p) { return smaller(p.beta, larger(p.alpha, x)); }
};
struct Linear {
  static HWY_INLINE V call(D, V x, Parameters p) { return hn::MulAdd(p.alpha, x, p.beta); }
};
struct Elu {
  static HWY_INLINE V call(D d, V x, Parameters p) {
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(p.alpha, expm1(d, x)), x);
  }
};
struct Softplus {
  static HWY_INLINE V call(D d, V x, Parameters) { return softplus(d, x); }
};
struct Softsign {
  static HWY_INLINE V call(D d, V x, Parameters) {
    return hn::Div(x, hn::Add(hn::Set(d, 1.0f), hn::Abs(x)));
  }
};
struct Swish {
  static HWY_INLINE V call(D d, V x, Parameters p) {
    return hn::Mul(x, sigmoid(d, hn::Mul(p.alpha, x)));
  }
};
struct Floor {
  static HWY_INLINE V call(D, V x, Parameters) { return hn::Floor(x); }
};
struct Ceil {
  static HWY_INLINE V call(D, V x, Parameters) { return hn::Ceil(x); }
};
struct Round {
  static HWY_INLINE V call(D, V x, Parameters) { return hn::Round(x); }
};
struct Sign {
  static HWY_INLINE V call(D d, V x, Parameters) {
    const V zero = hn::Zero(d);
    const V unit = hn::CopySign(hn::Set(d, 1.0f), x);
    return hn::IfThenElse(hn::Or(hn::Lt(x, zero), hn::Gt(x, zero)), unit, x);
  }
};
struct Selu {
  static HWY_INLINE V call(D d, V x, Parameters p) { return hn::Mul(p.beta, Elu::call(d, x, p)); }
};
struct Celu {
  static HWY_INLINE V call(D d, V x, Parameters p) {
    const V low = hn::Mul(p.alpha, expm1(d, hn::Div(x, p.alpha)));
    return hn::Add(at_least(d, 0.0f, x), at_most(d, 0.0f, low));
  }
};

struct Cube {
  static HWY_INLINE V call(D, V x, Parameters) { return hn::Mul(x, hn::Mul(x, x)); }
};
struct Root {  // x^0.5, which differs from the square root of -0 and -infinity
  static HWY_INLINE V call(D d, V x, Parameters) {
    const V root = hn::Sqrt(hn::Add(x, hn::Zero(d)));
    return hn::IfThenElse(hn::IsInf(x), hn::Abs(x), root);
  }
};
struct Sin {
  static HWY_INLINE V call(D d, V x, Parameters) { return hn::Sin(d, x); }
};
struct Cos {
  static HWY_INLINE V call(D d, V x, Parameters) { return hn::Cos(d, x); }
};

struct Add {
  static HWY_INLINE V call(D, V x, V y) { return hn::Add(x, y); }
};
struct Sub {
  static HWY_INLINE V call(D, V x, V y) { return hn::Sub(x, y); }
};
struct Mul {
  static HWY_INLINE V call(D, V x, V y) { return hn::Mul(x, y); }
};
struct Div {
  static HWY_INLINE V call(D, V x, V y) { return hn::Div(x, y); }
};
struct Min {
  static HWY_INLINE V call(D, V x, V y) { return hn::IfThenElse(hn::IsNaN(x), x, smaller(x, y)); }
};
struct Max {
  static HWY_INLINE V call(D, V x, V y) { return hn::IfThenElse(hn::IsNaN(x), x, larger(x, y)); }
};
struct Prelu {
  static HWY_INLINE V call(D d, V x, V y) {
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, y), x);
  }
};

HWY_INLINE const float* input(const ChunkArgs& args, std::size_t k) {
  return reinterpret_cast<const float*>(args.in[k]);
}

template <class F>
void unary(const ChunkArgs& args) {
  const D d;
  const Parameters p{hn::Set(d, args.alpha), hn::Set(d, args.beta)};
  const auto count = static_cast<std::size_t>(args.count);
  const float* x = input(args, 0);
  float* y = reinterpret_cast<float*>(args.out);
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  if (args.uniform != 0) {
    const V v = F::call(d, hn::Set(d, *x), p);
    for (; i + lanes <= count; i += lanes) {
      hn::StoreU(v, d, y + i);
    }
    if (i < count) store_part(v, d, y + i, static_cast<std::int64_t>(count - i));
    return;
  }
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(F::call(d, hn::LoadU(d, x + i), p), d, y + i);
  }
  if (i < count) {
    const auto rest = static_cast<std::int64_t>(count - i);
    store_part(F::call(d, load_part(d, x + i, rest), p), d, y + i, rest);
  }
}

template <class F, bool kUniformX, bool kUniformY>
HWY_INLINE void binary_loop(const ChunkArgs& args) {
  const D d;
  const auto count = static_cast<std::size_t>(args.count);
  const float* x = input(args, 0);
  const float* y = input(args, 1);
  float* z = reinterpret_cast<float*>(args.out);
  const std::size_t lanes = hn::Lanes(d);
  [[maybe_unused]] V vx = hn::Zero(d);
  [[maybe_unused]] V vy = hn::Zero(d);
  if constexpr (kUniformX) vx = hn::Set(d, *x);
  if constexpr (kUniformY) vy = hn::Set(d, *y);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    if constexpr (!kUniformX) vx = hn::LoadU(d, x + i);
    if constexpr (!kUniformY) vy = hn::LoadU(d, y + i);
    hn::StoreU(F::call(d, vx, vy), d, z + i);
  }
  if (i < count) {
    const auto rest = static_cast<std::int64_t>(count - i);
    if constexpr (!kUniformX) vx = load_part(d, x + i, rest);
    if constexpr (!kUniformY) vy = load_part(d, y + i, rest);
    store_part(F::call(d, vx, vy), d, z + i, rest);
  }
}

template <class F>
void binary(const ChunkArgs& args) {
  switch (args.uniform) {
    case 0: return binary_loop<F, false, false>(args);
    case 1: return binary_loop<F, true, false>(args);
    case 2: return binary_loop<F, false, true>(args);
    default: return binary_loop<F, true, true>(args);
  }
}

/// Powers of positive finite numbers are e^(y ln x) in double precision; a vector that holds any
/// others goes number by number.
void general_power(const ChunkArgs& args) {
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, decltype(dd)> df;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(dd));
  const float* x = input(args, 0);
  const float* y = input(args, 1);
  float* z = reinterpret_cast<float*>(args.out);
  const bool one_base = (args.uniform & 1) != 0;
  const bool one_exponent = (args.uniform & 2) != 0;
  std::int64_t i = 0;
  for (; i + lanes <= args.count; i += lanes) {
    const auto base = one_base ? hn::Set(df, *x) : hn::LoadU(df, x + i);
    const auto exponent = one_exponent ? hn::Set(df, *y) : hn::LoadU(df, y + i);
    const auto plain =
        hn::And(hn::And(hn::Gt(base, hn::Zero(df)), hn::IsFinite(base)), hn::IsFinite(exponent));
    if (hn::AllTrue(df, plain)) {
      const auto power = hn::Mul(hn::PromoteTo(dd, exponent), hn::Log(dd, hn::PromoteTo(dd, base)));
      const auto bounded = hn::Min(hn::Max(power, hn::Set(dd, -300.0)), hn::Set(dd, 300.0));
      hn::StoreU(hn::DemoteTo(df, hn::Exp(dd, bounded)), df, z + i);
    } else {
      for (std::int64_t k = i; k < i + lanes; ++k) {
        z[k] = std::pow(x[one_base ? 0 : k], y[one_exponent ? 0 : k]);
      }
    }
  }
  for (; i < args.count; ++i) {
    z[i] = std::pow(x[one_base ? 0 : i], y[one_exponent ? 0 : i]);
  }
}

/// Powers with one exponent for all are mostly squares and roots.
void power(const ChunkArgs& args) {
  const float exponent = (args.uniform & 2) != 0 ? *input(args, 1) : 0;
  ChunkArgs base = args;
  base.uniform &= 1;
  if (exponent == 2.0f) {
    base.in[1] = base.in[0];
    base.uniform *= 3;
    return binary<Mul>(base);
  }
  if (exponent == 3.0f) return unary<Cube>(base);
  if (exponent == 1.0f) return unary<Identity>(base);
  if (exponent == 0.5f) return unary<Root>(base);
  if (exponent == -1.0f) return unary<Reciprocal>(base);
  general_power(args);
}

/// Sine and cosine reduce their argument well up to some size; a vector that holds larger ones
/// goes number by number.
template <class F, ScalarFn kFn>
void circular(const ChunkArgs& args) {
  constexpr float kMost = 30000;
  const float* x = input(args, 0);
  float* y = reinterpret_cast<float*>(args.out);
  const std::int64_t inputs = args.uniform != 0 ? 1 : args.count;
  bool small = true;
  for (std::int64_t i = 0; i < inputs; ++i) {
    small = small && std::abs(x[i]) <= kMost;
  }
  if (small) return unary<F>(args);
  for (std::int64_t i = 0; i < args.count; ++i) {
    const double value = double{x[args.uniform != 0 ? 0 : i]};
    y[i] = static_cast<float>(evaluate(kFn, value, 0, 0, 0));
  }
}

ChunkFn find(ScalarFn fn) {
  switch (fn) {
    case ScalarFn::identity: return unary<Identity>;
    case ScalarFn::neg: return unary<Neg>;
    case ScalarFn::abs: return unary<Abs>;
    case ScalarFn::exp: return unary<Exp>;
    case ScalarFn::log: return unary<Log>;
    case ScalarFn::sqrt: return unary<Sqrt>;
    case ScalarFn::reciprocal: return unary<Reciprocal>;
    case ScalarFn::erf: return unary<Erf>;
    case ScalarFn::relu: return unary<Relu>;
    case ScalarFn::leaky_relu: return unary<LeakyRelu>;
    case ScalarFn::sigmoid: return unary<Sigmoid>;
    case ScalarFn::hard_sigmoid: return unary<HardSigmoid>;
    case ScalarFn::hard_swish: return unary<HardSwish>;
    case ScalarFn::tanh: return unary<Tanh>;
    case ScalarFn::gelu: return unary<Gelu>;
    case ScalarFn::gelu_tanh: return unary<GeluTanh>;
    case ScalarFn::clip: return unary<Clip>;
    case ScalarFn::linear: return unary<Linear>;
    case ScalarFn::elu: return unary<Elu>;
    case ScalarFn::softplus: return unary<Softplus>;
    case ScalarFn::softsign: return unary<Softsign>;
    case ScalarFn::swish: return unary<Swish>;
    case ScalarFn::sin: return circular<Sin, ScalarFn::sin>;
    case ScalarFn::cos: return circular<Cos, ScalarFn::cos>;
    case ScalarFn::pow: return power;
    case ScalarFn::floor: return unary<Floor>;
    case ScalarFn::ceil: return unary<Ceil>;
    case ScalarFn::round: return unary<Round>;
    case ScalarFn::sign: return unary<Sign>;
    case ScalarFn::selu: return unary<Selu>;
    case ScalarFn::celu: return unary<Celu>;
    case ScalarFn::add: return binary<Add>;
    case ScalarFn::sub: return binary<Sub>;
    case ScalarFn::mul: return binary<Mul>;
    case ScalarFn::div: return binary<Div>;
    case ScalarFn::min: return binary<Min>;
    case ScalarFn::max: return binary<Max>;
    case ScalarFn::prelu: return binary<Prelu>;
    default: return nullptr;
  }
}

}  // namespace
// NOLINTNEXTLINE(misc-use-internal-linkage): HWY_EXPORT needs its name
ChunkFn find_float_chunk(ScalarFn fn) {
  return find(fn);
}
}  // namespace tilemesh::cpu::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tilemesh::cpu::highway {
namespace {

HWY_EXPORT(find_float_chunk);

template <ScalarFn kFn>
void scalar_loop(const ChunkArgs& args) {
  const auto* x = reinterpret_cast<const float*>(args.in[0]);
  auto* y = reinterpret_cast<float*>(args.out);
  for (std::int64_t i = 0; i < args.count; ++i) {
    const double value = double{x[args.uniform != 0 ? 0 : i]};
    y[i] = static_cast<float>(evaluate(kFn, value, 0, double{args.alpha}, double{args.beta}));
  }
}

ChunkFn find_scalar_loop(ScalarFn fn) {
  switch (fn) {
    case ScalarFn::tan: return scalar_loop<ScalarFn::tan>;
    case ScalarFn::asin: return scalar_loop<ScalarFn::asin>;
    case ScalarFn::acos: return scalar_loop<ScalarFn::acos>;
    case ScalarFn::atan: return scalar_loop<ScalarFn::atan>;
    case ScalarFn::sinh: return scalar_loop<ScalarFn::sinh>;
    case ScalarFn::cosh: return scalar_loop<ScalarFn::cosh>;
    case ScalarFn::asinh: return scalar_loop<ScalarFn::asinh>;
    case ScalarFn::acosh: return scalar_loop<ScalarFn::acosh>;
    case ScalarFn::atanh: return scalar_loop<ScalarFn::atanh>;
    default: return nullptr;
  }
}

}  // namespace

ChunkFn float_chunk(ScalarFn fn) {
  const ChunkFn found = HWY_DYNAMIC_DISPATCH(find_float_chunk)(fn);
  return found != nullptr ? found : find_scalar_loop(fn);
}

double chunk_cost(ScalarFn fn) {
  switch (fn) {
    case ScalarFn::exp:
    case ScalarFn::log:
    case ScalarFn::erf:
    case ScalarFn::sigmoid:
    case ScalarFn::tanh:
    case ScalarFn::gelu:
    case ScalarFn::gelu_tanh:
    case ScalarFn::elu:
    case ScalarFn::selu:
    case ScalarFn::celu:
    case ScalarFn::softplus:
    case ScalarFn::swish:
    case ScalarFn::sin:
    case ScalarFn::cos: return 4;
    case ScalarFn::pow: return 10;
    default: return find_scalar_loop(fn) != nullptr ? 50 : 1;
  }
}

}  // namespace tilemesh::cpu::highway
#endif
