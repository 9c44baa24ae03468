#include "transpose.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "tilemesh/base/error.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tilemesh::detail {
namespace {

constexpr std::int64_t kLine = 64;    // bytes of a cache line
constexpr std::int64_t kVector = 16;  // bytes of the vectors that every x86-64 and arm64 has
// Rows and columns that are done before the next: as many pages as their addresses are kept for.
constexpr std::int64_t kTile = 256;

/// E is an unsigned integer of the element's size.
template <class E>
struct Block {
  static constexpr int kCount =
      kVector / int{sizeof(E)};  // rows and columns of the smallest square
  static constexpr int kLineCount = kLine / int{sizeof(E)};
  using Vector [[gnu::vector_size(kVector)]] = E;

  /// Elements of the first (or second) halves of a and b in turns.
  template <int kStart, int... kIndex>
  static Vector interleave(Vector a, Vector b, std::integer_sequence<int, kIndex...>) {
    return __builtin_shufflevector(a, b, (kStart + kIndex / 2 + (kIndex % 2 == 1 ? kCount : 0))...);
  }

  /// Interleaving row i with row i + n/2, log2(n) times, transposes n rows of n.
  [[gnu::always_inline]] static void square(const std::byte* source, std::int64_t source_row,
                                            std::byte* target, std::int64_t target_row) {
    constexpr auto kIndices = std::make_integer_sequence<int, kCount>{};
    // Plain arrays: std::array drops what makes Vector a vector.
    Vector rows[kVector / sizeof(E)];  // NOLINT(modernize-avoid-c-arrays)
    Vector next[kVector / sizeof(E)];  // NOLINT(modernize-avoid-c-arrays)
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i)
      std::memcpy(&rows[i], source + i * source_row, kVector);
#pragma GCC unroll 4
    for (int round = 1; round < kCount; round *= 2) {
#pragma GCC unroll 8
      for (int i = 0; i < kCount / 2; ++i) {
        next[2 * i] = interleave<0>(rows[i], rows[i + kCount / 2], kIndices);
        next[2 * i + 1] = interleave<kCount / 2>(rows[i], rows[i + kCount / 2], kIndices);
      }
#pragma GCC unroll 16
      for (int i = 0; i < kCount; ++i)
        rows[i] = next[i];
    }
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i)
      std::memcpy(target + i * target_row, &rows[i], kVector);
  }

  static void element(const std::byte* source, std::byte* target) {
    std::memcpy(target, source, sizeof(E));
  }
};

void write_line(const std::byte* source, std::byte* target, bool stream) {
#if defined(__SSE2__)
  if (stream) {
    for (int i = 0; i < kLine / kVector; ++i) {
      const auto* from = reinterpret_cast<const __m128i*>(source) + i;
      _mm_stream_si128(reinterpret_cast<__m128i*>(target) + i, _mm_load_si128(from));
    }
    return;
  }
#endif
  static_cast<void>(stream);
  std::memcpy(target, source, kLine);
}

/// A square of one line by one line, by way of a buffer: each source line is read at once, so that
/// rows at a distance of a power of two don't push each other out, and each target line is written
/// at once.
template <class E>
void line_square(const Transpose& job, const std::byte* source, std::byte* target, bool stream) {
  using B = Block<E>;
  alignas(kLine) std::array<std::byte, static_cast<std::size_t>(kLine * B::kLineCount)> buffer;
  for (int t = 0; t < B::kLineCount; ++t) {
    __builtin_prefetch(source + t * job.source_row + kLine);
  }
  for (int t = 0; t < B::kLineCount; t += B::kCount) {
    for (int f = 0; f < B::kLineCount; f += B::kCount) {
      B::square(source + t * job.source_row + f * static_cast<int>(sizeof(E)), job.source_row,
                buffer.data() + f * kLine + t * static_cast<int>(sizeof(E)), kLine);
    }
  }
  for (int f = 0; f < B::kLineCount; ++f) {
    write_line(buffer.data() + f * kLine, target + f * job.target_row, stream);
  }
}

/// Any number of rows and columns, straight to the target.
template <class E>
void rectangle(const Transpose& job, const std::byte* source, std::int64_t t_count,
               std::byte* target, std::int64_t f_count) {
  using B = Block<E>;
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(E));
  const std::int64_t whole_f = f_count - f_count % B::kCount;
  const std::int64_t whole_t = t_count - t_count % B::kCount;
  for (std::int64_t f = 0; f < whole_f; f += B::kCount) {
    for (std::int64_t t = 0; t < whole_t; t += B::kCount) {
      B::square(source + t * job.source_row + f * kBytes, job.source_row,
                target + f * job.target_row + t * kBytes, job.target_row);
    }
  }
  for (std::int64_t f = 0; f < f_count; ++f) {
    for (std::int64_t t = f < whole_f ? whole_t : 0; t < t_count; ++t) {
      B::element(source + t * job.source_row + f * kBytes,
                 target + f * job.target_row + t * kBytes);
    }
  }
}

/// The rows of one target line, along the source rows.
template <class E>
void strip(const Transpose& job, const std::byte* source, std::byte* target, std::int64_t f_count,
           bool stream) {
  using B = Block<E>;
  const std::int64_t whole = f_count - f_count % B::kLineCount;
  for (std::int64_t f = 0; f < whole; f += B::kLineCount) {
    line_square<E>(job, source + f * static_cast<std::int64_t>(sizeof(E)),
                   target + f * job.target_row, stream);
  }
  rectangle<E>(job, source + whole * static_cast<std::int64_t>(sizeof(E)), B::kLineCount,
               target + whole * job.target_row, f_count - whole);
}

/// Strips, then what is left of less than a line.
template <class E>
void strips(const Transpose& job, const std::byte* source, std::int64_t t_count, std::byte* target,
            std::int64_t f_count, bool stream) {
  constexpr std::int64_t kStep = Block<E>::kLineCount;
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(E));
  std::int64_t t = 0;
  for (; t + kStep <= t_count; t += kStep) {
    strip<E>(job, source + t * job.source_row, target + t * kBytes, f_count, stream);
  }
  rectangle<E>(job, source + t * job.source_row, t_count - t, target + t * kBytes, f_count);
}

template <class E>
void run(const Transpose& job, const std::byte* source, std::byte* target) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(E));
  const auto misaligned =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(target) % kLine);
  // Streaming wants whole lines: all target rows must begin alike, and the first elements go ahead,
  // unless rows are too short to have many whole lines then.
  const bool stream = job.stream && job.target_row % kLine == 0 && misaligned % kBytes == 0 &&
                      (misaligned == 0 || job.t_count >= 8 * Block<E>::kLineCount);
  const std::int64_t ahead =
      stream && misaligned != 0 ? std::min((kLine - misaligned) / kBytes, job.t_count) : 0;
  rectangle<E>(job, source, ahead, target, job.f_count);
  for (std::int64_t t = ahead; t < job.t_count; t += kTile) {
    for (std::int64_t f = 0; f < job.f_count; f += kTile) {
      strips<E>(job, source + t * job.source_row + f * kBytes, std::min(kTile, job.t_count - t),
                target + f * job.target_row + t * kBytes, std::min(kTile, job.f_count - f), stream);
    }
  }
}

}  // namespace

void transpose(const Transpose& job, const std::byte* source, std::byte* target) {
  switch (job.element_bytes) {
    case 1: return run<std::uint8_t>(job, source, target);
    case 2: return run<std::uint16_t>(job, source, target);
    case 4: return run<std::uint32_t>(job, source, target);
    case 8: return run<std::uint64_t>(job, source, target);
    default: TILEMESH_CHECK(false, "an element of a size that no type has");
  }
}

void stream_copy(std::byte* target, const std::byte* source, std::int64_t bytes) {
#if defined(__SSE2__)
  const auto misaligned =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(target) % kLine);
  const std::int64_t head = std::min(misaligned == 0 ? 0 : kLine - misaligned, bytes);
  std::memcpy(target, source, static_cast<std::size_t>(head));
  std::int64_t at = head;
  for (; at + kLine <= bytes; at += kLine) {
    for (int i = 0; i < kLine / kVector; ++i) {
      const auto* from = reinterpret_cast<const __m128i*>(source + at) + i;
      _mm_stream_si128(reinterpret_cast<__m128i*>(target + at) + i, _mm_loadu_si128(from));
    }
  }
  std::memcpy(target + at, source + at, static_cast<std::size_t>(bytes - at));
#else
  std::memcpy(target, source, static_cast<std::size_t>(bytes));
#endif
}

void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace tilemesh::detail
