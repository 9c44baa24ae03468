// Loads and stores of fewer elements than a vector has, which touch no memory beyond them. (The
// masked ones of Highway may read and write whole vectors where there are no instructions for it.)

#if defined(TILEMESH_HWY_PARTIAL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEMESH_HWY_PARTIAL_INL
#undef TILEMESH_HWY_PARTIAL_INL
#else
#define TILEMESH_HWY_PARTIAL_INL
#endif

#include <cstring>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tilemesh::cpu::highway::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define TILEMESH_HWY_HAS_MASKS 1
#else
#define TILEMESH_HWY_HAS_MASKS 0
#endif

/// The first `count` lanes from memory, the others zero; count <= lanes.
template <class D>
HWY_INLINE hn::Vec<D> load_part(D d, const float* from, std::int64_t count) {
#if TILEMESH_HWY_HAS_MASKS
  return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count)), d, from);
#else
  HWY_ALIGN float lanes[hn::MaxLanes(D())] = {};
  std::memcpy(lanes, from, static_cast<std::size_t>(count) * sizeof(float));
  return hn::Load(d, lanes);
#endif
}

/// Writes the first `count` lanes.
template <class D>
HWY_INLINE void store_part(hn::Vec<D> v, D d, float* to, std::int64_t count) {
#if TILEMESH_HWY_HAS_MASKS
  hn::BlendedStore(v, hn::FirstN(d, static_cast<std::size_t>(count)), d, to);
#else
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(v, d, lanes);
  std::memcpy(to, lanes, static_cast<std::size_t>(count) * sizeof(float));
#endif
}

#undef TILEMESH_HWY_HAS_MASKS

}  // namespace tilemesh::cpu::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
