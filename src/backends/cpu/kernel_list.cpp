#include "backends/cpu/kernel_list.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "backends/cpu/kernels/dnnl/kernels.hpp"
#include "backends/cpu/kernels/hwy/kernels.hpp"
#include "backends/cpu/kernels/hwy/offers.hpp"
#include "backends/cpu/kernels/matmul_gelu.hpp"
#include "backends/cpu/kernels/matmul_gemm.hpp"
#include "backends/cpu/kernels/reference.hpp"

namespace tilemesh::cpu {
namespace {

using Lists = std::map<std::string_view, std::vector<KernelEntry>>;

/// What joins kernels of several folders.
constexpr OpKernel kJoined[] = {{"matmul", {"onednn+highway:gemm", offer_matmul_gemm}},
                                {"matmul", {"onednn+highway:matmul_gelu", offer_matmul_gelu}}};

/// The folders in the order in which their entries are asked.
Lists collect() {
  Lists lists;
  for (const std::span<const OpKernel> folder :
       {std::span<const OpKernel>(kJoined), highway::preferred_kernels(), onednn::kernels(),
        highway::kernels()}) {
    for (const OpKernel& kernel : folder) {
      lists[kernel.op].push_back(kernel.entry);
    }
  }
  for (const OpDef& op : all_ops()) {
    lists[op.name].push_back({"highway:via_f32", highway::offer_via_f32});
    lists[op.name].push_back({"reference", offer_reference});
  }
  return lists;
}

}  // namespace

std::span<const KernelEntry> kernel_list(std::string_view op) {
  static const Lists lists = collect();
  const auto found = lists.find(op);
  return found == lists.end() ? std::span<const KernelEntry>{} : found->second;
}

std::unique_ptr<Kernel> make_kernel(const OpCall& call, const KernelContext& context) {
  std::string refusals;
  for (const KernelEntry& entry : kernel_list(call.def->name)) {
    KernelOffer offer = entry.offer(call, context);
    if (offer.kernel) {
      return std::move(offer.kernel);
    }
    refusals += fmt::format("\n  {}: {}", entry.name, offer.refusal);
  }
  throw Error(ErrorCode::unsupported,
              fmt::format("no CPU kernel takes {}:{}", to_string(call), refusals));
}

}  // namespace tilemesh::cpu
