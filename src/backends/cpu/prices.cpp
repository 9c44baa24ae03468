#include "backends/cpu/prices.hpp"

#include <algorithm>

#include "backends/cpu/kernels/dnnl/kernels.hpp"

namespace tilemesh::cpu {
namespace {

constexpr double kLaunch = 0.5e-6;            // of any kernel
constexpr double kFlopsPerLane = 13e9;        // two multiply-adds a cycle at some 3.3 GHz
constexpr double kCoreBytesPerSecond = 25e9;  // read and written, from and to memory
constexpr double kCacheSpeedUp = 2.5;
constexpr double kUsualCacheBytes = 4 << 20;

/// Shares of the peak that implementations reach, as measured; the first whose text the name holds.
struct Efficiency {
  std::string_view part;
  double share;
};
constexpr Efficiency kEfficiencies[] = {
    {"patches", 0.5},      {"conv_transpose", 0.3}, {"conv_windows", 0.45}, {"jit_dw", 0.4},
    {"brdgmm_dw", 0.35},   {"jit_1x1", 0.85},       {"brgconv", 0.82},      {"gemm:", 0.25},
    {"onednn:gemm", 0.93}, {":jit", 0.88},          {"brg:", 0.85},         {"reference", 0.0003}};
constexpr double kUsualEfficiency = 0.25;
constexpr double kGroupedGemmEfficiency = 0.01;  // a matrix of one row a group
constexpr double kSignalShare = 0.4;             // kernels made for many channels, on one
constexpr double kPlainPoolShare = 0.3;          // of a pool's speed in blocks

double efficiency_of(std::string_view implementation) {
  const auto* found = std::ranges::find_if(kEfficiencies, [&](const Efficiency& entry) {
    return implementation.find(entry.part) != std::string_view::npos;
  });
  return found == std::end(kEfficiencies) ? kUsualEfficiency : found->share;
}

/// A gemm of few pixels is slow: what is left of its speed.
double gemm_share(const Shape& output) {
  constexpr double kEnoughPixels = 64;
  const auto pixels = static_cast<double>(output.element_count() / (output[0] * output[1]));
  return std::min(1.0, (pixels + 12) / kEnoughPixels);
}

/// How much more than the logical work a blocked layout does for the sake of its padding.
double padding_factor(const OperandType& operand) {
  const auto elements = static_cast<double>(operand.shape.element_count());
  return elements == 0
             ? 1
             : static_cast<double>(operand.layout.element_count(operand.shape)) / elements;
}

/// They lose little with 256-bit operations, and pad less.
double narrow_share(const TargetInfo& info) {
  return splits_vectors(info) ? 0.96 : 0.5;
}

/// A convolution along one dim of one channel.
bool is_signal_conv(const OpCall& call) {
  return call.def->name == "conv" && call.inputs[0].shape.rank() == 3 &&
         call.inputs[0].shape[1] == 1;
}

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

bool splits_vectors(const TargetInfo& info) {
  return info.processor.find("AMD") != std::string::npos;
}

Isa isa_of_this_machine() {
  const onednn::LibraryIsa isa = onednn::library_isa();
  return {isa.vector_floats, isa.bf16};
}

Prices::Prices(const TargetInfo& info)
    : flops_per_second_(kFlopsPerLane * isa_of(info).vector_floats *
                        std::max(1, info.threads_per_device)),
      narrow_share_(isa_of(info).vector_floats > 8 ? narrow_share(info) : 1),
      bytes_per_second_(kCoreBytesPerSecond * std::max(1, info.threads_per_device)),
      cache_bytes_(std::max(kUsualCacheBytes, static_cast<double>(info.l3_cache_bytes) / 4)) {}

double Prices::weighted(double flops, std::string_view implementation, const OpCall& call) const {
  double share = efficiency_of(implementation);
  if (implementation.find("gemm:") != std::string_view::npos) {
    const bool is_grouped =
        call.def->name.starts_with("conv") && call.attributes.integer("group") > 1;
    share = is_grouped ? kGroupedGemmEfficiency : share * gemm_share(call.outputs[0].shape);
  }
  if (implementation.ends_with(":avx2")) {
    share *= narrow_share_;
  }
  if (is_signal_conv(call) && implementation.starts_with("onednn")) {
    share *= kSignalShare;
  }
  const double work = call.def->name == "matmul" ? flops : flops * padding_factor(call.inputs[1]);
  return kLaunch + std::max(work / (flops_per_second_ * share), bytes(bytes_of(call)));
}

double Prices::pass(const OpCall& call) const {
  const bool is_pool = call.def->name == "max_pool" || call.def->name == "average_pool";
  const double share = is_pool && call.inputs[0].layout.is_rows() ? kPlainPoolShare : 1;
  return kLaunch + bytes(bytes_of(call)) / share;
}

double Prices::bytes(double count) const {
  const double from_cache = std::min(count, cache_bytes_) / kCacheSpeedUp;
  return (from_cache + std::max(0.0, count - cache_bytes_)) / bytes_per_second_;
}

}  // namespace tilemesh::cpu
