#include "strided_copy.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/math.hpp"

#include "parallel.hpp"

namespace tilemesh::cpu::highway {
namespace {

constexpr std::size_t kMaxLoops = 24;
/// Bytes that one unit of work should write: enough to forget what a unit costs.
constexpr std::int64_t kUnitBytes = 16 << 10;
constexpr double kNanosecondsPerByte = 0.1;

struct Bytes16 {
  std::array<std::uint64_t, 2> words;
};

/// Short runs are not worth a call of memcpy.
inline void copy_run(const std::byte* from, std::byte* to, std::int64_t bytes) {
  if (bytes > 256) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return;
  }
  for (; bytes >= 16; bytes -= 16, from += 16, to += 16) {
    std::memcpy(to, from, 16);
  }
  if (bytes >= 8) {
    std::memcpy(to, from, 8);
    bytes -= 8, from += 8, to += 8;
  }
  if (bytes >= 4) {
    std::memcpy(to, from, 4);
    bytes -= 4, from += 4, to += 4;
  }
  for (; bytes > 0; --bytes) {
    *to++ = *from++;
  }
}

/// `count` runs of bytes at even distances; also of a size that is known to the compiler.
template <std::size_t kBytes>
void copy_runs(const std::byte* from, std::int64_t from_stride, std::byte* to,
               std::int64_t to_stride, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * to_stride, from + i * from_stride, kBytes);
  }
}
void copy_runs(std::int64_t bytes, const std::byte* from, std::int64_t from_stride, std::byte* to,
               std::int64_t to_stride, std::int64_t count) {
  switch (bytes) {
    case 32: return copy_runs<32>(from, from_stride, to, to_stride, count);
    case 48: return copy_runs<48>(from, from_stride, to, to_stride, count);
    case 64: return copy_runs<64>(from, from_stride, to, to_stride, count);
    case 128: return copy_runs<128>(from, from_stride, to, to_stride, count);
    default: break;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    copy_run(from + i * from_stride, to + i * to_stride, bytes);
  }
}

/// Elements may be several of the tensor's, and are then not aligned to their own size.
template <class T>
void copy_elements(const std::byte* from, std::int64_t from_stride, std::byte* to,
                   std::int64_t to_stride, std::int64_t count) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
  if (from_stride == 0 && to_stride == 1) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    for (std::int64_t i = 0; i < count; ++i) {
      std::memcpy(to + i * kBytes, &value, sizeof(T));
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * to_stride * kBytes, from + i * from_stride * kBytes, sizeof(T));
  }
}

void copy_elements(std::int64_t element_bytes, const std::byte* from, std::int64_t from_stride,
                   std::byte* to, std::int64_t to_stride, std::int64_t count) {
  switch (element_bytes) {
    case 1: return copy_elements<std::uint8_t>(from, from_stride, to, to_stride, count);
    case 2: return copy_elements<std::uint16_t>(from, from_stride, to, to_stride, count);
    case 4: return copy_elements<std::uint32_t>(from, from_stride, to, to_stride, count);
    case 8: return copy_elements<std::uint64_t>(from, from_stride, to, to_stride, count);
    default: return copy_elements<Bytes16>(from, from_stride, to, to_stride, count);
  }
}

}  // namespace

StridedCopy::StridedCopy(std::vector<CopyLoop> loops, std::int64_t element_bytes)
    : outer_(std::move(loops)), element_bytes_(element_bytes), bytes_(element_bytes) {
  for (const CopyLoop& loop : outer_) {
    bytes_ *= loop.size;
  }
  std::erase_if(outer_, [](const CopyLoop& loop) { return loop.size == 1; });
  std::ranges::stable_sort(outer_,
                           [](const CopyLoop& a, const CopyLoop& b) { return a.to > b.to; });
  std::vector<CopyLoop> merged;
  for (const CopyLoop& loop : outer_) {
    if (!merged.empty() && merged.back().from == loop.from * loop.size &&
        merged.back().to == loop.to * loop.size) {
      merged.back() = {merged.back().size * loop.size, loop.from, loop.to};
    } else {
      merged.push_back(loop);
    }
  }
  outer_ = std::move(merged);
  TILEMESH_CHECK(outer_.size() <= kMaxLoops, "a copy of more loops than layouts have");
  if (bytes_ == 0) return;
  widen();
  plan();
}

/// A short dense run becomes one larger element.
void StridedCopy::widen() {
  if (outer_.empty() || outer_.back().from != 1 || outer_.back().to != 1) return;
  const std::int64_t factor = outer_.back().size;
  const std::int64_t bytes = factor * element_bytes_;
  if (bytes > 16 || !std::has_single_bit(static_cast<std::uint64_t>(bytes))) return;
  const auto divides = [factor](const CopyLoop& loop) {
    return loop.from % factor == 0 && loop.to % factor == 0;
  };
  if (outer_.size() == 1 || !std::all_of(outer_.begin(), outer_.end() - 1, divides)) return;
  outer_.pop_back();
  for (CopyLoop& loop : outer_) {
    loop.from /= factor;
    loop.to /= factor;
  }
  element_bytes_ = bytes;
}

void StridedCopy::plan() {
  if (outer_.empty()) outer_.push_back({1, 1, 1});
  inner_ = outer_.back();
  outer_.pop_back();
  mode_ = inner_.from == 1 && inner_.to == 1 ? Mode::run : Mode::elements;
  std::int64_t step_bytes = element_bytes_;
  constexpr std::int64_t kShortRun = 1024;
  if (mode_ == Mode::run && !outer_.empty() && inner_.size * element_bytes_ <= kShortRun) {
    mode_ = Mode::runs;
    run_bytes_ = step_bytes = inner_.size * element_bytes_;
    inner_ = outer_.back();
    outer_.pop_back();
  }
  if (mode_ == Mode::elements && inner_.to == 1 && element_bytes_ <= 8) {
    const auto dense = std::ranges::find(outer_, std::int64_t{1}, &CopyLoop::from);
    if (dense != outer_.end()) {
      mode_ = Mode::squares;
      across_ = *dense;
      outer_.erase(dense);
      transpose_ = transpose_of(element_bytes_);
      step_bytes *= across_.size;
    }
  }
  for (CopyLoop& loop : outer_) {
    loop.from *= element_bytes_;
    loop.to *= element_bytes_;
  }
  piece_ = std::min(inner_.size, round_up(ceil_div(kUnitBytes, step_bytes), std::int64_t{64}));
  pieces_ = ceil_div(inner_.size, piece_);
  units_ = pieces_;
  for (const CopyLoop& loop : outer_) {
    units_ *= loop.size;
  }
}

int StridedCopy::threads(int device_threads) const {
  return threads_for(static_cast<double>(bytes_) * kNanosecondsPerByte, device_threads);
}

void StridedCopy::run(const std::byte* from, std::byte* to, int device_threads) const {
  if (mode_ == Mode::nothing) return;
  parallel_for(threads(device_threads), units_,
               [&](int, std::int64_t begin, std::int64_t end) { run_units(from, to, begin, end); });
}

void StridedCopy::run_units(const std::byte* from, std::byte* to, std::int64_t begin,
                            std::int64_t end) const {
  std::array<std::int64_t, kMaxLoops> index{};
  std::int64_t piece = begin % pieces_;
  std::int64_t rest = begin / pieces_;
  for (std::size_t i = outer_.size(); i-- > 0;) {
    index[i] = rest % outer_[i].size;
    rest /= outer_[i].size;
    from += index[i] * outer_[i].from;
    to += index[i] * outer_[i].to;
  }
  for (std::int64_t unit = begin;;) {
    run_unit(from, to, piece);
    if (++unit == end) return;
    if (++piece < pieces_) continue;
    piece = 0;
    for (std::size_t i = outer_.size(); i-- > 0;) {
      from += outer_[i].from;
      to += outer_[i].to;
      if (++index[i] < outer_[i].size) break;
      index[i] = 0;
      from -= outer_[i].from * outer_[i].size;
      to -= outer_[i].to * outer_[i].size;
    }
  }
}

void StridedCopy::run_unit(const std::byte* from, std::byte* to, std::int64_t piece) const {
  const std::int64_t first = piece * piece_;
  const std::int64_t count = std::min(piece_, inner_.size - first);
  from += first * inner_.from * element_bytes_;
  to += first * inner_.to * element_bytes_;
  switch (mode_) {
    case Mode::run: copy_run(from, to, count * element_bytes_); break;
    case Mode::runs:
      copy_runs(run_bytes_, from, inner_.from * element_bytes_, to, inner_.to * element_bytes_,
                count);
      break;
    case Mode::squares: transpose_(from, inner_.from, to, across_.to, count, across_.size); break;
    case Mode::elements:
      copy_elements(element_bytes_, from, inner_.from, to, inner_.to, count);
      break;
    case Mode::nothing: break;
  }
}

}  // namespace tilemesh::cpu::highway
