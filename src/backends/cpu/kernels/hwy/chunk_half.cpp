#include "tilemesh/types/half.hpp"

#include "chunk.hpp"
#include "targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/hwy/chunk_half.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tilemesh::cpu::highway::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

/// One small float type: how vectors of it are widened and rounded to nearest even.
struct AsHalf {
  using Element = Half;
  // Where there is no instruction for it, Highway's stand-in takes finite numbers only.
  static constexpr bool kVector = HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_SSE4;
  static HWY_INLINE V widen(D d, const std::uint16_t* from) {
    const hn::Rebind<hwy::float16_t, D> dh;
    return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(from)));
  }
  static HWY_INLINE void round(D, V v, std::uint16_t* to) {
    const hn::Rebind<hwy::float16_t, D> dh;
    hn::StoreU(hn::DemoteTo(dh, v), dh, reinterpret_cast<hwy::float16_t*>(to));
  }
};
struct AsBFloat16 {
  using Element = BFloat16;
  static constexpr bool kVector = true;
  static HWY_INLINE V widen(D d, const std::uint16_t* from) {
    const hn::Rebind<std::uint16_t, D> dh;
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, from))));
  }
  static HWY_INLINE void round(D, V v, std::uint16_t* to) {
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

template <class Type>
void widen(const ChunkArgs& args) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const auto count = static_cast<std::size_t>(args.count);
  const auto* x = reinterpret_cast<const std::uint16_t*>(args.in[0]);
  auto* y = reinterpret_cast<float*>(args.out);
  const auto scalar = [x](std::size_t k) {
    typename Type::Element element;
    element.bits = x[k];
    return static_cast<float>(element);
  };
  std::size_t i = 0;
  if (args.uniform != 0) {
    for (; i < count; ++i)
      y[i] = scalar(0);
    return;
  }
  for (; Type::kVector && i + lanes <= count; i += lanes) {
    hn::StoreU(Type::widen(d, x + i), d, y + i);
  }
  for (; i < count; ++i)
    y[i] = scalar(i);
}

template <class Type>
void narrow(const ChunkArgs& args) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const auto count = static_cast<std::size_t>(args.count);
  const auto* x = reinterpret_cast<const float*>(args.in[0]);
  auto* y = reinterpret_cast<std::uint16_t*>(args.out);
  std::size_t i = 0;
  if (args.uniform != 0) {
    for (; i < count; ++i)
      y[i] = typename Type::Element(*x).bits;
    return;
  }
  for (; Type::kVector && i + lanes <= count; i += lanes) {
    Type::round(d, hn::LoadU(d, x + i), y + i);
  }
  for (; i < count; ++i)
    y[i] = typename Type::Element(x[i]).bits;
}

}  // namespace
// NOLINTNEXTLINE(misc-use-internal-linkage): HWY_EXPORT needs its name
ChunkFn find_half_chunk(DType from, DType to) {
  if (from == DType::f16 && to == DType::f32) return widen<AsHalf>;
  if (from == DType::bf16 && to == DType::f32) return widen<AsBFloat16>;
  if (from == DType::f32 && to == DType::f16) return narrow<AsHalf>;
  if (from == DType::f32 && to == DType::bf16) return narrow<AsBFloat16>;
  return nullptr;
}
}  // namespace tilemesh::cpu::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tilemesh::cpu::highway {
namespace {
HWY_EXPORT(find_half_chunk);
}  // namespace

ChunkFn half_chunk(DType from, DType to) {
  return HWY_DYNAMIC_DISPATCH(find_half_chunk)(from, to);
}

}  // namespace tilemesh::cpu::highway
#endif
