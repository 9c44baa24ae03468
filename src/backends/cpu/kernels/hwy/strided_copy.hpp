#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tilemesh::cpu::highway {

/// Transposes `rows` x `columns` elements of 1, 2, 4 or 8 bytes: to[c * to_stride + r] =
/// from[r * from_stride + c], strides in elements.
using TransposeFn = void (*)(const std::byte* from, std::int64_t from_stride, std::byte* to,
                             std::int64_t to_stride, std::int64_t rows, std::int64_t columns);
TransposeFn transpose_of(std::int64_t element_bytes);

/// One loop of a copy: `size` steps of `from` and `to` elements.
struct CopyLoop {
  std::int64_t size = 1;
  std::int64_t from = 0;
  std::int64_t to = 0;
};

/// A copy of elements between two strided places, planned once: in runs of bytes where both sides
/// are dense, by transposing small squares in registers where each side is dense along another
/// loop. The target's elements are distinct and don't overlap the source; source strides may be
/// zero or negative. Immutable.
class StridedCopy {
 public:
  StridedCopy(std::vector<CopyLoop> loops, std::int64_t element_bytes);

  void run(const std::byte* from, std::byte* to, int device_threads) const;
  /// How many of so many threads run() makes use of.
  int threads(int device_threads) const;
  /// Bytes that it writes.
  std::int64_t bytes() const { return bytes_; }

 private:
  /// One dense run, many of them, squares to transpose, or elements one by one.
  enum class Mode : std::uint8_t { nothing, run, runs, squares, elements };

  void plan();
  void widen();
  void run_units(const std::byte* from, std::byte* to, std::int64_t begin, std::int64_t end) const;
  void run_unit(const std::byte* from, std::byte* to, std::int64_t piece) const;

  Mode mode_ = Mode::nothing;
  std::vector<CopyLoop> outer_;  // strides in bytes, outermost first
  CopyLoop inner_;               // strides in elements
  CopyLoop across_;              // Mode::squares: the loop along which the source is dense
  TransposeFn transpose_ = nullptr;
  std::int64_t element_bytes_ = 1;
  std::int64_t run_bytes_ = 0;  // Mode::runs: of what inner_ repeats
  std::int64_t piece_ = 0;      // inner_'s steps that one unit of work covers
  std::int64_t pieces_ = 1;     // per step of the outer loops
  std::int64_t units_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace tilemesh::cpu::highway
