#include "nest.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "convert.hpp"
#include "transpose.hpp"

namespace tilemesh::detail {
namespace {

constexpr std::int64_t kShortRun = 16;  // elements; shorter ones don't pay a call of their own
constexpr std::int64_t kChunk = 256;    // elements that are gathered before they are converted

/// Visits the loops and calls f(source, target) for each place.
template <class F>
void walk(std::span<const NestLoop> loops, const std::byte* source, std::byte* target, F&& f) {
  if (loops.empty()) {
    f(source, target);
    return;
  }
  const NestLoop& loop = loops.front();
  for (std::int64_t i = 0; i < loop.size; ++i) {
    walk(loops.subspan(1), source + i * loop.from, target + i * loop.to, f);
  }
}

/// A nest without needless loops, outermost first in the target; target strides are positive.
struct Plan {
  Nest loops;
  const std::byte* source;
  std::byte* target;
  bool empty = false;

  Plan(const Nest& nest, const std::byte* from, std::byte* to) : source(from), target(to) {
    for (NestLoop loop : nest) {
      if (loop.size == 0) empty = true;
      if (loop.size <= 1) continue;
      if (loop.to < 0) {  // the other way round
        source += loop.from * (loop.size - 1);
        target += loop.to * (loop.size - 1);
        loop.from = -loop.from;
        loop.to = -loop.to;
      }
      loops.push_back(loop);
    }
    std::sort(loops.begin(), loops.end(),
              [](const NestLoop& a, const NestLoop& b) { return a.to > b.to; });
    join();
  }

  /// Two loops are one when the outer goes on where the inner ends, on both sides.
  void join() {
    Nest joined;
    for (const NestLoop& loop : loops) {
      const bool goes_on = !joined.empty() && joined.back().from == loop.from * loop.size &&
                           joined.back().to == loop.to * loop.size;
      if (goes_on) {
        joined.back() = {joined.back().size * loop.size, loop.from, loop.to};
      } else {
        joined.push_back(loop);
      }
    }
    loops = joined;
  }

  std::int64_t element_count() const {
    std::int64_t count = 1;
    for (const NestLoop& loop : loops)
      count *= loop.size;
    return count;
  }

  /// Takes the innermost loop out; one step of nothing if there is none.
  NestLoop pop() {
    if (loops.empty()) return {1, 0, 0};
    const NestLoop loop = loops.back();
    loops.erase(loops.size() - 1);
    return loop;
  }

  /// Takes out the loop along contiguous source elements, if there is one.
  NestLoop pop_contiguous_source(std::int64_t bytes) {
    for (std::size_t i = 0; i < loops.size(); ++i) {
      if (loops[i].from != bytes) continue;
      const NestLoop loop = loops[i];
      loops.erase(i);
      return loop;
    }
    return {};
  }
};

// Same element type: bytes are moved, and the element may be made larger.

template <class E>
void copy_elements(const NestLoop& outer, const NestLoop& inner, const std::byte* source,
                   std::byte* target) {
  for (std::int64_t o = 0; o < outer.size; ++o) {
    for (std::int64_t i = 0; i < inner.size; ++i) {
      std::memcpy(target + i * inner.to, source + i * inner.from, sizeof(E));
    }
    source += outer.from;
    target += outer.to;
  }
}

template <std::size_t kBytes>
void copy_fixed_runs(const NestLoop& outer, std::int64_t, const std::byte* source,
                     std::byte* target) {
  for (std::int64_t o = 0; o < outer.size; ++o) {
    std::memcpy(target + o * outer.to, source + o * outer.from, kBytes);
  }
}

void copy_any_runs(const NestLoop& outer, std::int64_t bytes, const std::byte* source,
                   std::byte* target) {
  for (std::int64_t o = 0; o < outer.size; ++o) {
    std::memcpy(target + o * outer.to, source + o * outer.from, static_cast<std::size_t>(bytes));
  }
}

void stream_runs(const NestLoop& outer, std::int64_t bytes, const std::byte* source,
                 std::byte* target) {
  for (std::int64_t o = 0; o < outer.size; ++o) {
    stream_copy(target + o * outer.to, source + o * outer.from, bytes);
  }
}

void copy_runs(Plan& plan, std::int64_t bytes, bool stream) {
  const NestLoop outer = plan.pop();
  const auto copy = bytes == 16   ? copy_fixed_runs<16>
                    : bytes == 32 ? copy_fixed_runs<32>
                    : bytes == 64 ? copy_fixed_runs<64>
                    : stream && bytes > 64 && outer.size > 1
                        ? stream_runs
                        : copy_any_runs;  // memcpy streams by itself
  walk(plan.loops, plan.source, plan.target,
       [&](const std::byte* s, std::byte* t) { copy(outer, bytes, s, t); });
  if (stream) stream_fence();
}

void copy_strided_elements(Plan& plan, std::int64_t element_bytes) {
  const NestLoop inner = plan.pop();
  const NestLoop outer = plan.pop();
  const auto copy = element_bytes == 1   ? copy_elements<std::uint8_t>
                    : element_bytes == 2 ? copy_elements<std::uint16_t>
                    : element_bytes == 4 ? copy_elements<std::uint32_t>
                                         : copy_elements<std::uint64_t>;
  walk(plan.loops, plan.source, plan.target,
       [&](const std::byte* s, std::byte* t) { copy(outer, inner, s, t); });
}

bool worth_a_transpose(const NestLoop& t, const NestLoop& f, std::int64_t element_bytes) {
  const std::int64_t minimum = transpose_minimum(element_bytes);
  return t.size >= minimum && f.size >= minimum;
}

void copy_same(Plan& plan, std::int64_t element_bytes) {
  const bool stream = plan.element_count() * element_bytes >= kStreamBytes;
  // A few elements that stay together move as one larger element.
  const auto stays_together = [&] {
    if (plan.loops.empty()) return false;
    const NestLoop& inner = plan.loops.back();
    return inner.from == element_bytes && inner.to == element_bytes;
  };
  if (stays_together()) {
    const std::int64_t bytes = plan.loops.back().size * element_bytes;
    const bool is_element = bytes == 2 || bytes == 4 || bytes == 8;
    if (!is_element && bytes < 16) return copy_strided_elements(plan, element_bytes);
    plan.pop();
    if (!is_element) return copy_runs(plan, bytes, stream);
    element_bytes = bytes;
  }
  if (!plan.loops.empty() && plan.loops.back().to == element_bytes) {
    Plan rest = plan;
    const NestLoop t = rest.pop();
    const NestLoop f = rest.pop_contiguous_source(element_bytes);
    if (worth_a_transpose(t, f, element_bytes)) {
      const Transpose job{t.size, f.size, t.from, f.to, element_bytes, stream};
      walk(rest.loops, rest.source, rest.target,
           [&](const std::byte* s, std::byte* d) { transpose(job, s, d); });
      if (stream) stream_fence();
      return;
    }
  }
  copy_strided_elements(plan, element_bytes);
}

// Different element types: through small buffers, so that each conversion exists once.

constexpr std::int64_t kBufferBytes = 16 << 10;  // half of a first-level cache

struct Conversion {
  ConvertRun run;
  std::int64_t source_bytes;
  std::int64_t target_bytes;
};

void convert_runs(Plan& plan, const Conversion& convert) {
  const NestLoop inner = plan.pop();
  walk(plan.loops, plan.source, plan.target,
       [&](const std::byte* s, std::byte* t) { convert.run(s, t, inner.size); });
}

/// Converts source rows into a buffer as wide as a target line, and transposes that.
void convert_transposed(const Plan& rest, const NestLoop& t, const NestLoop& f,
                        const Conversion& convert) {
  alignas(64) std::array<std::byte, kBufferBytes> buffer;
  const std::int64_t t_step = std::min(64 / convert.target_bytes, t.size);
  const std::int64_t f_step = kBufferBytes / (t_step * convert.target_bytes) / 64 * 64;
  const std::int64_t row = f_step * convert.target_bytes;
  walk(rest.loops, rest.source, rest.target, [&](const std::byte* s, std::byte* d) {
    for (std::int64_t t0 = 0; t0 < t.size; t0 += t_step) {
      for (std::int64_t f0 = 0; f0 < f.size; f0 += f_step) {
        const Transpose job{.t_count = std::min(t_step, t.size - t0),
                            .f_count = std::min(f_step, f.size - f0),
                            .source_row = row,
                            .target_row = f.to,
                            .element_bytes = convert.target_bytes};
        const std::byte* from = s + t0 * t.from + f0 * convert.source_bytes;
        for (std::int64_t i = 0; i < job.t_count; ++i) {
          convert.run(from + i * t.from, buffer.data() + i * row, job.f_count);
        }
        transpose(job, buffer.data(), d + t0 * convert.target_bytes + f0 * f.to);
      }
    }
  });
}

/// Gathers, converts and scatters; several rows at a time when they are short.
void convert_elements(Plan& plan, const Conversion& convert) {
  alignas(64) std::array<std::byte, kChunk * 8> gathered;
  alignas(64) std::array<std::byte, kChunk * 8> converted;
  const NestLoop inner = plan.pop();
  const NestLoop outer = plan.pop();
  const std::int64_t columns = std::min(inner.size, kChunk);
  const std::int64_t rows = std::max<std::int64_t>(kChunk / columns, 1);
  const std::int64_t from = convert.source_bytes;
  const std::int64_t to = convert.target_bytes;
  walk(plan.loops, plan.source, plan.target, [&](const std::byte* s, std::byte* t) {
    for (std::int64_t o = 0; o < outer.size; o += rows) {
      for (std::int64_t i = 0; i < inner.size; i += columns) {
        const std::int64_t o_count = std::min(rows, outer.size - o);
        const std::int64_t i_count = std::min(columns, inner.size - i);
        Plan in({{o_count, outer.from, i_count * from}, {i_count, inner.from, from}},
                s + o * outer.from + i * inner.from, gathered.data());
        copy_same(in, from);
        convert.run(gathered.data(), converted.data(), o_count * i_count);
        Plan out({{o_count, i_count * to, outer.to}, {i_count, to, inner.to}}, converted.data(),
                 t + o * outer.to + i * inner.to);
        copy_same(out, to);
      }
    }
  });
}

void copy_converting(Plan& plan, const Conversion& convert) {
  if (!plan.loops.empty() && plan.loops.back().to == convert.target_bytes) {
    const NestLoop t = plan.loops.back();
    if (t.from == convert.source_bytes && t.size >= kShortRun) return convert_runs(plan, convert);
    Plan rest = plan;
    rest.pop();
    const NestLoop f = rest.pop_contiguous_source(convert.source_bytes);
    if (f.size >= kShortRun && worth_a_transpose(t, f, convert.target_bytes)) {
      return convert_transposed(rest, t, f, convert);
    }
  }
  convert_elements(plan, convert);
}

}  // namespace

void copy_nest(Nest nest, const std::byte* source, DType source_dtype, std::byte* target,
               DType target_dtype) {
  Plan plan(nest, source, target);
  if (plan.empty) return;
  if (source_dtype == target_dtype) return copy_same(plan, size_of(source_dtype));
  copy_converting(plan, {convert_run(source_dtype, target_dtype), size_of(source_dtype),
                         size_of(target_dtype)});
}

void zero_nest(Nest nest, std::byte* target, DType dtype) {
  for (NestLoop& loop : nest)
    loop.from = loop.to;  // so that loops join by the target alone
  Plan plan(nest, target, target);
  if (plan.empty) return;
  std::int64_t bytes = size_of(dtype);
  if (!plan.loops.empty() && plan.loops.back().to == bytes) bytes *= plan.pop().size;
  walk(plan.loops, plan.source, plan.target,
       [&](const std::byte*, std::byte* t) { std::memset(t, 0, static_cast<std::size_t>(bytes)); });
}

}  // namespace tilemesh::detail
