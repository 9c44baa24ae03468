#include "integer_panels.hpp"

#include <algorithm>
#include <cstring>

#include "targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/hwy/integer_panels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tilemesh::cpu::highway::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D32 = hn::ScalableTag<std::int32_t>;
using D16 = hn::ScalableTag<std::int16_t>;
using V32 = hn::Vec<D32>;

constexpr int kVectors = 2;  // of a panel's row
#if HWY_TARGET == HWY_AVX3
constexpr int kMostRows = 12;
#else
constexpr int kMostRows = 6;
#endif

/// sums + the products of both 16-bit halves of each lane.
HWY_INLINE V32 add_pairs(V32 a, V32 b, V32 sums) {
  const D32 d;
#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const D16 d16;
  V32 unused = hn::Zero(d);
  return hn::ReorderWidenMulAccumulate(d, hn::BitCast(d16, a), hn::BitCast(d16, b), sums, unused);
#else
  const auto low = [](V32 v) {
    return hn::ShiftRight<16>(hn::ShiftLeft<16>(v));
  };
  (void)d;
  const V32 first = hn::Mul(low(a), low(b));
  const V32 second = hn::Mul(hn::ShiftRight<16>(a), hn::ShiftRight<16>(b));
  return hn::Add(sums, hn::Add(first, second));
#endif
}

HWY_INLINE V32 broadcast_pair(const std::int16_t* pair) {
  std::int32_t bits;
  std::memcpy(&bits, pair, sizeof bits);
  return hn::Set(D32(), bits);
}

/// kRows rows against the whole panel.
template <int kRows>
HWY_INLINE void tile(const std::int16_t* a, std::int64_t a_stride, const std::int16_t* panel,
                     std::int64_t depth, std::int32_t* c, std::int64_t c_stride, bool accumulate) {
  const D32 d;
  const std::size_t lanes = hn::Lanes(d);
  V32 sums[std::size_t{kRows}][std::size_t{kVectors}];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    sums[i][0] = accumulate ? hn::LoadU(d, c + i * c_stride) : hn::Zero(d);
    sums[i][1] = accumulate ? hn::LoadU(d, c + i * c_stride + lanes) : hn::Zero(d);
  }
  const auto* lines = reinterpret_cast<const std::int32_t*>(panel);
  for (std::int64_t k = 0; k < depth; k += 2, lines += kVectors * lanes) {
    const V32 b0 = hn::LoadU(d, lines);
    const V32 b1 = hn::LoadU(d, lines + lanes);
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      const V32 pair = broadcast_pair(a + i * a_stride + k);
      sums[i][0] = add_pairs(pair, b0, sums[i][0]);
      sums[i][1] = add_pairs(pair, b1, sums[i][1]);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    hn::StoreU(sums[i][0], d, c + i * c_stride);
    hn::StoreU(sums[i][1], d, c + i * c_stride + lanes);
  }
}

/// A tile whose last columns aren't there.
template <int kRows>
HWY_INLINE void tile_of(const std::int16_t* a, std::int64_t a_stride, const std::int16_t* panel,
                        std::int64_t depth, std::int32_t* c, std::int64_t c_stride,
                        std::int64_t count, bool accumulate) {
  constexpr std::int64_t kMostColumns = kVectors * std::int64_t{hn::MaxLanes(D32())};
  const auto columns = kVectors * static_cast<std::int64_t>(hn::Lanes(D32()));
  if (count == columns) {
    tile<kRows>(a, a_stride, panel, depth, c, c_stride, accumulate);
    return;
  }
  std::int32_t own[std::size_t{kRows} * kMostColumns] = {};
  for (int i = 0; accumulate && i < kRows; ++i) {
    std::copy_n(c + i * c_stride, count, own + i * columns);
  }
  tile<kRows>(a, a_stride, panel, depth, own, columns, accumulate);
  for (int i = 0; i < kRows; ++i) {
    std::copy_n(own + i * columns, count, c + i * c_stride);
  }
}

void multiply(const std::int16_t* a, std::int64_t rows, std::int64_t a_stride,
              const std::int16_t* panel, std::int64_t depth, std::int32_t* c, std::int64_t c_stride,
              std::int64_t count, bool accumulate) {
  std::int64_t i = 0;
  for (; i + kMostRows <= rows; i += kMostRows) {
    tile_of<kMostRows>(a + i * a_stride, a_stride, panel, depth, c + i * c_stride, c_stride, count,
                       accumulate);
  }
  for (; i + 4 <= rows; i += 4) {
    tile_of<4>(a + i * a_stride, a_stride, panel, depth, c + i * c_stride, c_stride, count,
               accumulate);
  }
  for (; i < rows; ++i) {
    tile_of<1>(a + i * a_stride, a_stride, panel, depth, c + i * c_stride, c_stride, count,
               accumulate);
  }
}

template <class T>
HWY_INLINE void widen_all(const T* from, std::int32_t zero, std::int16_t* to, std::int64_t count) {
  const D16 d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto zeros = hn::Set(d, static_cast<std::int16_t>(zero));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto wide = hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, D16>(), from + i));
    hn::StoreU(hn::Sub(wide, zeros), d, to + i);
  }
  for (; i < count; ++i)
    to[i] = static_cast<std::int16_t>(from[i] - zero);
}

void widen(const std::byte* from, bool is_signed, std::int32_t zero, std::int16_t* to,
           std::int64_t count) {
  if (is_signed) {
    widen_all(reinterpret_cast<const std::int8_t*>(from), zero, to, count);
  } else {
    widen_all(reinterpret_cast<const std::uint8_t*>(from), zero, to, count);
  }
}

void interleave(const std::int16_t* even, const std::int16_t* odd, std::int64_t count,
                std::int16_t* to) {
  const D16 d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto columns = kVectors * static_cast<std::int64_t>(hn::Lanes(D32()));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreInterleaved2(hn::LoadU(d, even + i), hn::LoadU(d, odd + i), d, to + 2 * i);
  }
  for (; i < columns; ++i) {
    to[2 * i] = i < count ? even[i] : std::int16_t{0};
    to[2 * i + 1] = i < count ? odd[i] : std::int16_t{0};
  }
}

template <class T>
HWY_INLINE void add_scaled_all(const T* from, std::int64_t stride, std::int32_t zero,
                               std::int32_t weight, std::int32_t* sums, std::int64_t count) {
  const D32 d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V32 zeros = hn::Set(d, zero);
  const V32 weights = hn::Set(d, weight);
  std::int64_t i = 0;
  for (; stride == 1 && i + lanes <= count; i += lanes) {
    const V32 x = hn::Sub(hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, D32>(), from + i)), zeros);
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), hn::Mul(x, weights)), d, sums + i);
  }
  for (; i < count; ++i) {
    const auto product = static_cast<std::uint32_t>((from[i * stride] - zero) * weight);
    sums[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sums[i]) + product);
  }
}

void add_scaled(const std::byte* from, bool is_signed, std::int64_t stride, std::int32_t zero,
                std::int32_t weight, std::int32_t* sums, std::int64_t count) {
  if (is_signed) {
    add_scaled_all(reinterpret_cast<const std::int8_t*>(from), stride, zero, weight, sums, count);
  } else {
    add_scaled_all(reinterpret_cast<const std::uint8_t*>(from), stride, zero, weight, sums, count);
  }
}

}  // namespace
// NOLINTNEXTLINE(misc-use-internal-linkage): HWY_EXPORT needs its name
IntegerPanels find_integer_panels() {
  return {.columns = kVectors * static_cast<std::int64_t>(hn::Lanes(D32())),
          .multiply = multiply,
          .widen = widen,
          .interleave = interleave,
          .add_scaled = add_scaled};
}
}  // namespace tilemesh::cpu::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tilemesh::cpu::highway {
namespace {
HWY_EXPORT(find_integer_panels);
}  // namespace

IntegerPanels integer_panels() {
  return HWY_DYNAMIC_DISPATCH(find_integer_panels)();
}

}  // namespace tilemesh::cpu::highway
#endif
