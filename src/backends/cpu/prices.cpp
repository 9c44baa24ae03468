#include "backends/cpu/prices.hpp"

#include <algorithm>

#include "backends/cpu/kernels/dnnl/kernels.hpp"

namespace tilemesh::cpu {
namespace {

constexpr double kLaunch = 0.5e-6;            // of any kernel
constexpr double kFlopsPerLane = 13e9;        // two multiply-adds a cycle at some 3.3 GHz
constexpr double kCoreBytesPerSecond = 25e9;  // read and written, from and to memory
constexpr double kCacheSpeedUp = 2.5;
constexpr double kUsualCacheBytes = 1 << 20;

double bytes_of(const OpCall& call) {
  std::int64_t sum = 0;
  for (const auto* operands : {&call.inputs, &call.outputs}) {
    for (const OperandType& type : *operands) {
      sum += type.present ? type.shape.element_count() * size_of(type.dtype) : 0;
    }
  }
  return static_cast<double>(sum);
}

}  // namespace

Isa isa_of(const TargetInfo& info) {
  const auto has = [&](std::string_view feature) {
    return std::ranges::find(info.features, feature) != info.features.end();
  };
  if (has("avx512f") && has("avx512bw") && has("avx512vl")) {
    return {16, has("avx512bf16")};
  }
  return {has("avx2") ? 8 : 4, false};
}

Isa isa_of_this_machine() {
  const onednn::LibraryIsa isa = onednn::library_isa();
  return {isa.vector_floats, isa.bf16};
}

Prices::Prices(const TargetInfo& info)
    : flops_per_second_(kFlopsPerLane * isa_of(info).vector_floats *
                        std::max(1, info.threads_per_device)),
      bytes_per_second_(kCoreBytesPerSecond * std::max(1, info.threads_per_device)),
      cache_bytes_(info.l2_cache_bytes > 0 ? static_cast<double>(info.l2_cache_bytes)
                                           : kUsualCacheBytes) {}

double Prices::compute(double flops, double efficiency, const OpCall& call) const {
  return kLaunch + std::max(flops / (flops_per_second_ * efficiency), bytes(bytes_of(call)));
}

double Prices::pass(const OpCall& call) const {
  return kLaunch + bytes(bytes_of(call));
}

double Prices::bytes(double count) const {
  const double from_cache = std::min(count, cache_bytes_) / kCacheSpeedUp;
  return (from_cache + std::max(0.0, count - cache_bytes_)) / bytes_per_second_;
}

}  // namespace tilemesh::cpu
