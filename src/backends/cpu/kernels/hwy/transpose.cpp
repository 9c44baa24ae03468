#include <cstring>

#include "strided_copy.hpp"
#include "targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/hwy/transpose.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tilemesh::cpu::highway::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
/// A square of as many rows as a 128-bit vector has lanes. Each stage interleaves row i with row
/// i + half; after log2(lanes) stages rows and columns have changed places.
template <class T>
HWY_INLINE void square(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride) {
  constexpr std::size_t kLanes = 16 / sizeof(T);
  const hn::FixedTag<T, kLanes> d;
  hn::Vec<decltype(d)> rows[kLanes];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kLanes; ++i) {
    rows[i] = hn::LoadU(d, from + static_cast<std::int64_t>(i) * from_stride);
  }
#pragma GCC unroll 4
  for (std::size_t stage = 1; stage < kLanes; stage *= 2) {
    hn::Vec<decltype(d)> next[kLanes];
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kLanes / 2; ++i) {
      next[2 * i] = hn::InterleaveLower(d, rows[i], rows[i + kLanes / 2]);
      next[2 * i + 1] = hn::InterleaveUpper(d, rows[i], rows[i + kLanes / 2]);
    }
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kLanes; ++i) {
      rows[i] = next[i];
    }
  }
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kLanes; ++i) {
    hn::StoreU(rows[i], d, to + static_cast<std::int64_t>(i) * to_stride);
  }
}

#endif

template <class T>
HWY_INLINE void plain(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride,
                      std::int64_t rows, std::int64_t columns) {
  for (std::int64_t c = 0; c < columns; ++c) {
    for (std::int64_t r = 0; r < rows; ++r) {
      to[c * to_stride + r] = from[r * from_stride + c];
    }
  }
}

template <class T>
void transpose(const std::byte* from, std::int64_t from_stride, std::byte* to,
               std::int64_t to_stride, std::int64_t rows, std::int64_t columns) {
  const T* source = reinterpret_cast<const T*>(from);
  T* target = reinterpret_cast<T*>(to);
#if HWY_TARGET == HWY_SCALAR
  plain(source, from_stride, target, to_stride, rows, columns);
#else
  constexpr std::int64_t kSide = 16 / sizeof(T);
  // A line of cache on each side: it is read and written as a whole while it is near.
  constexpr std::int64_t kTile = 64 / sizeof(T);
  const std::int64_t whole_rows = rows / kSide * kSide;
  const std::int64_t whole_columns = columns / kSide * kSide;
  for (std::int64_t r0 = 0; r0 < whole_rows; r0 += kTile) {
    const std::int64_t r1 = r0 + kTile < whole_rows ? r0 + kTile : whole_rows;
    for (std::int64_t c = 0; c < whole_columns; c += kSide) {
      for (std::int64_t r = r0; r < r1; r += kSide) {
        square(source + r * from_stride + c, from_stride, target + c * to_stride + r, to_stride);
      }
    }
  }
  plain(source + whole_columns, from_stride, target + whole_columns * to_stride, to_stride,
        whole_rows, columns - whole_columns);
  plain(source + whole_rows * from_stride, from_stride, target + whole_rows, to_stride,
        rows - whole_rows, columns);
#endif
}

}  // namespace
// NOLINTNEXTLINE(misc-use-internal-linkage): HWY_EXPORT needs its name
TransposeFn find_transpose(std::int64_t element_bytes) {
  switch (element_bytes) {
    case 1: return transpose<std::uint8_t>;
    case 2: return transpose<std::uint16_t>;
    case 4: return transpose<std::uint32_t>;
    case 8: return transpose<std::uint64_t>;
    default: return nullptr;
  }
}
}  // namespace tilemesh::cpu::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tilemesh::cpu::highway {
namespace {
HWY_EXPORT(find_transpose);
}  // namespace

TransposeFn transpose_of(std::int64_t element_bytes) {
  return HWY_DYNAMIC_DISPATCH(find_transpose)(element_bytes);
}

}  // namespace tilemesh::cpu::highway
#endif
