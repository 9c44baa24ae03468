#include "backends/cpu/kernels/dnnl/kernels.hpp"

#include <algorithm>

#include "backends/cpu/kernels/dnnl/conv.hpp"
#include "backends/cpu/kernels/dnnl/convert.hpp"
#include "backends/cpu/kernels/dnnl/matmul.hpp"
#include "backends/cpu/kernels/dnnl/norm.hpp"
#include "backends/cpu/kernels/dnnl/pool.hpp"

namespace tilemesh::cpu::onednn {
namespace {

constexpr OpKernel kKernels[] = {
    {"average_pool", {"onednn:pool", offer_with<make_average_pool>}},
    {"batch_normalization", {"onednn:batch_normalization", offer_with<make_batch_normalization>}},
    {"conv", {"onednn:conv", offer_with<make_conv>}},
    {"conv_transpose", {"onednn:conv_transpose", offer_with<make_conv_transpose>}},
    {"convert", {"onednn:reorder", offer_with<make_convert>}},
    {"lrn", {"onednn:lrn", offer_with<make_lrn>}},
    {"matmul", {"onednn:matmul", offer_with<make_matmul>}},
    {"max_pool", {"onednn:pool", offer_with<make_max_pool>}},
};

/// The ops that compute with weights and take an epilogue.
struct WeightsRule {
  std::string_view op;
  WeightsChoice (*choose)(const OpCall& call);
  void (*check_fusion)(const OpCall& call, bool ask_library);
  double (*flops)(const OpCall& call);
};
constexpr WeightsRule kWeightsRules[] = {
    {"conv", choose_conv_weights, check_conv_fusion, conv_flops},
    {"conv_transpose", choose_conv_transpose_weights, check_conv_transpose_fusion, conv_flops},
    {"matmul", choose_matmul_weights, check_matmul_fusion, matmul_flops},
};

const WeightsRule* find_rule(std::string_view op) {
  const auto* rule = std::ranges::find(kWeightsRules, op, &WeightsRule::op);
  return rule == std::end(kWeightsRules) ? nullptr : rule;
}

}  // namespace

std::span<const OpKernel> kernels() {
  return kKernels;
}

LibraryIsa library_isa() {
  if (has_isa(dnnl::cpu_isa::avx512_core)) {
    return {16, has_bf16()};
  }
  return {has_isa(dnnl::cpu_isa::avx2) ? 8 : 4, false};
}

double flops_of(const OpCall& call) {
  const WeightsRule* rule = find_rule(call.def->name);
  return rule == nullptr ? 0 : rule->flops(call);
}

std::optional<ConstantChoice> choose_constant(const OpCall& call, int device_threads) {
  const WeightsRule* rule = find_rule(call.def->name);
  if (rule == nullptr) {
    return std::nullopt;
  }
  try {
    const ThreadLimit limit(threads_for(rule->flops(call) / kFlopsPerSecond, device_threads));
    const WeightsChoice choice = rule->choose(call);
    return ConstantChoice{1, choice.layout, choice.implementation};
  } catch (const Refused&) {
  } catch (const dnnl::error&) {  // no implementation for these layouts
  }
  return std::nullopt;
}

std::optional<std::string> choose_permuted_matmul(const OpCall& call) {
  try {
    return name_permuted_matmul(call);
  } catch (const Refused&) {
  } catch (const dnnl::error&) {
  }
  return std::nullopt;
}

std::string why_not_fused(const OpCall& call, bool ask_library) {
  const WeightsRule* rule = find_rule(call.def->name);
  if (rule == nullptr) {
    return "the op takes no epilogue";
  }
  try {
    rule->check_fusion(call, ask_library);
  } catch (const Refused& refused) {
    return refused.reason;
  } catch (const dnnl::error& error) {
    return error.what();
  }
  return "";
}

}  // namespace tilemesh::cpu::onednn
