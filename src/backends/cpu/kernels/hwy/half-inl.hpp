// The small float types: how vectors of them are widened to f32, and rounded to nearest even.

#if defined(TILEMESH_HWY_HALF_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEMESH_HWY_HALF_INL
#undef TILEMESH_HWY_HALF_INL
#else
#define TILEMESH_HWY_HALF_INL
#endif

#include <hwy/highway.h>

#include "tilemesh/types/half.hpp"

HWY_BEFORE_NAMESPACE();
namespace tilemesh::cpu::highway::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct AsHalf {
  using Element = Half;
  using D = hn::ScalableTag<float>;
  // Where there is no instruction for it, Highway's stand-in takes finite numbers only.
  static constexpr bool kVector = HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_SSE4;
  static HWY_INLINE hn::Vec<D> widen(D d, const std::uint16_t* from) {
    const hn::Rebind<hwy::float16_t, D> dh;
    return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(from)));
  }
  static HWY_INLINE void round(D, hn::Vec<D> v, std::uint16_t* to) {
    const hn::Rebind<hwy::float16_t, D> dh;
    hn::StoreU(hn::DemoteTo(dh, v), dh, reinterpret_cast<hwy::float16_t*>(to));
  }
};

struct AsBFloat16 {
  using Element = BFloat16;
  using D = hn::ScalableTag<float>;
  static constexpr bool kVector = true;
  static HWY_INLINE hn::Vec<D> widen(D d, const std::uint16_t* from) {
    const hn::Rebind<std::uint16_t, D> dh;
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, from))));
  }
  static HWY_INLINE void round(D, hn::Vec<D> v, std::uint16_t* to) {
    const hn::Rebind<std::uint16_t, D> dh;
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const auto word = hn::BitCast(du, v);
    const auto last = hn::And(hn::ShiftRight<16>(word), hn::Set(du, 1));
    const auto rounded = hn::Add(word, hn::Add(last, hn::Set(du, 0x7fff)));
    const auto nan = hn::Or(word, hn::Set(du, 0x400000));
    const auto is_nan = hn::RebindMask(du, hn::IsNaN(v));
    const auto high = hn::ShiftRight<16>(hn::IfThenElse(is_nan, nan, rounded));
    hn::StoreU(hn::DemoteTo(dh, hn::BitCast(di, high)), dh, to);
  }
};

}  // namespace tilemesh::cpu::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
