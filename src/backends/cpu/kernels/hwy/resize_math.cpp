#include "resize_math.hpp"

#include <algorithm>

#include "targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/hwy/resize_math.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tilemesh::cpu::highway::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE void mix(const float* low, const float* high, float weight, std::int64_t count,
                    float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if (weight == 0) {  // `high` has no part in it, though it be infinite
    std::copy_n(low, count, out);
    return;
  }
  // Not low + weight * (high - low): infinities on both sides would make NaN of it.
  const auto w = hn::Set(d, weight);
  const auto rest = hn::Set(d, 1 - weight);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto a = hn::Mul(rest, hn::LoadU(d, low + i));
    hn::StoreU(hn::MulAdd(w, hn::LoadU(d, high + i), a), d, out + i);
  }
  for (; i < count; ++i) {
    out[i] = (1 - weight) * low[i] + weight * high[i];
  }
}

void along_row(const float* row, const Tap* taps, std::int64_t count, std::int64_t pixel,
               float* out) {
  if (pixel == 1) {
    for (std::int64_t i = 0; i < count; ++i) {
      const float weight = taps[i].weight;
      const float low = row[taps[i].low];
      out[i] = weight == 0 ? low : (1 - weight) * low + weight * row[taps[i].high];
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    mix(row + taps[i].low * pixel, row + taps[i].high * pixel, taps[i].weight, pixel,
        out + i * pixel);
  }
}

void between_rows(const float* low, const float* high, float weight, std::int64_t count,
                  float* out) {
  mix(low, high, weight, count, out);
}

}  // namespace
// NOLINTNEXTLINE(misc-use-internal-linkage): HWY_EXPORT needs its name
ResizeFns find_resize_fns() {
  return {.along_row = along_row, .between_rows = between_rows};
}
}  // namespace tilemesh::cpu::highway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tilemesh::cpu::highway {
namespace {
HWY_EXPORT(find_resize_fns);
}  // namespace

ResizeFns resize_fns() {
  return HWY_DYNAMIC_DISPATCH(find_resize_fns)();
}

}  // namespace tilemesh::cpu::highway
#endif
