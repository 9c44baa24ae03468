#include "chunk.hpp"
#include "targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/hwy/chunk_half.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "half-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tilemesh::cpu::highway::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
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
