#include "dot_products.hpp"

#include "targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/hwy/dot_products.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "partial-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tilemesh::cpu::highway::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

template <class V128>
HWY_INLINE V128 sum_of_blocks(hn::FixedTag<float, 4>, V128 v) {
  return v;
}
/// The sum of a vector's 128-bit blocks.
template <class DN, class VN>
HWY_INLINE auto sum_of_blocks(DN d, VN v) {
  const hn::Half<DN> dh;
  return sum_of_blocks(dh, hn::Add(hn::LowerHalf(dh, v), hn::UpperHalf(dh, v)));
}

/// c[0..3] += the sums of the four vectors' lanes.
HWY_INLINE void add_sums(V v0, V v1, V v2, V v3, float* c) {
  const D d;
  const hn::Repartition<double, D> dd;
  const V v01 = hn::Add(hn::InterleaveLower(d, v0, v1), hn::InterleaveUpper(d, v0, v1));
  const V v23 = hn::Add(hn::InterleaveLower(d, v2, v3), hn::InterleaveUpper(d, v2, v3));
  const auto w01 = hn::BitCast(dd, v01);
  const auto w23 = hn::BitCast(dd, v23);
  const V sums = hn::Add(hn::BitCast(d, hn::InterleaveLower(dd, w01, w23)),
                         hn::BitCast(d, hn::InterleaveUpper(dd, w01, w23)));
  const hn::FixedTag<float, 4> d4;
  hn::StoreU(hn::Add(hn::LoadU(d4, c), sum_of_blocks(d, sums)), d4, c);
}

#else

HWY_INLINE void add_sums(V v0, V v1, V v2, V v3, float* c) {
  const D d;
  c[0] += hn::GetLane(hn::SumOfLanes(d, v0));
  c[1] += hn::GetLane(hn::SumOfLanes(d, v1));
  c[2] += hn::GetLane(hn::SumOfLanes(d, v2));
  c[3] += hn::GetLane(hn::SumOfLanes(d, v3));
}

#endif

/// kA rows by kB rows, with one vector of partial sums each.
template <int kA, int kB>
HWY_INLINE void tile(const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride,
                     std::int64_t depth, float* c, std::int64_t c_stride) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V sums[std::size_t{kA}][std::size_t{kB}];
#pragma GCC unroll 4
  for (int i = 0; i < kA; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kB; ++j) {
      sums[i][j] = hn::Zero(d);
    }
  }
  std::int64_t k = 0;
  for (; k + lanes <= depth; k += lanes) {
    V va[std::size_t{kA}];
#pragma GCC unroll 4
    for (int i = 0; i < kA; ++i) {
      va[i] = hn::LoadU(d, a + i * a_stride + k);
    }
#pragma GCC unroll 8
    for (int j = 0; j < kB; ++j) {
      const V vb = hn::LoadU(d, b + j * b_stride + k);
#pragma GCC unroll 4
      for (int i = 0; i < kA; ++i) {
        sums[i][j] = hn::MulAdd(va[i], vb, sums[i][j]);
      }
    }
  }
  if (k < depth) {
    const std::int64_t rest = depth - k;
#pragma GCC unroll 8
    for (int j = 0; j < kB; ++j) {
      const V vb = load_part(d, b + j * b_stride + k, rest);
#pragma GCC unroll 4
      for (int i = 0; i < kA; ++i) {
        sums[i][j] = hn::MulAdd(load_part(d, a + i * a_stride + k, rest), vb, sums[i][j]);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kA; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kB; j += 4) {
      add_sums(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3], c + i * c_stride + j);
    }
  }
}

/// kA rows of `a` against all of `b`; the last rows of `b`, fewer than four, one by one.
template <int kA, int kB>
HWY_INLINE void band(const float* a, std::int64_t a_stride, const RowsOf& b, std::int64_t depth,
                     float* c, std::int64_t c_stride) {
  std::int64_t j = 0;
  for (; j + kB <= b.rows; j += kB) {
    tile<kA, kB>(a, a_stride, b.data + j * b.stride, b.stride, depth, c + j, c_stride);
  }
  for (; j + 4 <= b.rows; j += 4) {
    tile<kA, 4>(a, a_stride, b.data + j * b.stride, b.stride, depth, c + j, c_stride);
  }
  for (; j < b.rows; ++j) {
    for (int i = 0; i < kA; ++i) {
      float sums[4] = {};
      tile<1, 4>(a + i * a_stride, a_stride, b.data + j * b.stride, 0, depth, sums, 0);
      c[i * c_stride + j] += sums[0];
    }
  }
}

void add_all(const RowsOf& a, const RowsOf& b, std::int64_t depth, float* c,
             std::int64_t c_stride) {
  // So many rows of b that they stay in the second-level cache while all of a passes over them.
  const std::int64_t group = depth == 0 ? b.rows : 65536 / depth / 8 * 8 + 8;
  for (std::int64_t first = 0; first < b.rows; first += group) {
    const std::int64_t rows = first + group < b.rows ? group : b.rows - first;
    const RowsOf part{b.data + first * b.stride, rows, b.stride};
    std::int64_t i = 0;
    for (; i + 4 <= a.rows; i += 4) {
      band<4, 4>(a.data + i * a.stride, a.stride, part, depth, c + i * c_stride + first, c_stride);
    }
    for (; i < a.rows; ++i) {
      band<1, 8>(a.data + i * a.stride, a.stride, part, depth, c + i * c_stride + first, c_stride);
    }
  }
}

}  // namespace
// NOLINTNEXTLINE(misc-use-internal-linkage): HWY_EXPORT needs its name
AddDotProductsFn find_add_dot_products() {
  return add_all;
}
}  // namespace tilemesh::cpu::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tilemesh::cpu::highway {
namespace {
HWY_EXPORT(find_add_dot_products);
}  // namespace

AddDotProductsFn add_dot_products() {
  return HWY_DYNAMIC_DISPATCH(find_add_dot_products)();
}

}  // namespace tilemesh::cpu::highway
#endif
