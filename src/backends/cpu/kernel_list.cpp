#include "backends/cpu/kernel_list.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/math.hpp"

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

/// For calls without a byte to write, whatever the sizes of their other operands: no library has to
/// bear those.
class NothingKernel final : public Kernel {
 public:
  void run(std::byte* const* /*operands*/, std::byte* /*scratch*/) override {}
  int threads() const override { return 1; }
  std::string_view name() const override { return "nothing"; }
};

bool writes_nothing(const OpCall& call) {
  return std::ranges::all_of(call.outputs,
                             [](const OperandType& output) { return output.bytes() == 0; });
}

/// What a kernel may want beside its operands: enough for copies of all of them in other forms and
/// for windows of an image written out, far from what a file can make a library compute.
std::int64_t most_scratch(const OpCall& call, const KernelContext& context) {
  constexpr std::int64_t kAlways = std::int64_t{256} << 20;
  constexpr std::int64_t kTimesOperands = 64;
  std::int64_t bytes = 0;
  for (const auto* operands : {&call.inputs, &call.outputs}) {
    for (const OperandType& operand : *operands) {
      bytes = checked_add(bytes, operand.bytes());
    }
  }
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / kTimesOperands - kAlways;
  return std::min(context.memory_bytes, kAlways + kTimesOperands * std::min(bytes, most));
}

}  // namespace

KernelOffer ask(const KernelEntry& entry, const OpCall& call, const KernelContext& context) {
  KernelOffer offer = entry.offer(call, context);
  if (!offer.kernel) return offer;
  const std::int64_t wanted = offer.kernel->scratch_bytes();
  const std::int64_t most = most_scratch(call, context);
  if (wanted <= most) return offer;
  return {nullptr, fmt::format("{} wants {} bytes of scratch memory, the most for such operands on "
                               "this device is {}",
                               offer.kernel->name(), wanted, most)};
}

std::span<const KernelEntry> kernel_list(std::string_view op) {
  static const Lists lists = collect();
  const auto found = lists.find(op);
  return found == lists.end() ? std::span<const KernelEntry>{} : found->second;
}

std::unique_ptr<Kernel> make_kernel(const OpCall& call, const KernelContext& context) {
  if (writes_nothing(call)) return std::make_unique<NothingKernel>();
  std::string refusals;
  for (const KernelEntry& entry : kernel_list(call.def->name)) {
    KernelOffer offer = ask(entry, call, context);
    if (offer.kernel) {
      return std::move(offer.kernel);
    }
    refusals += fmt::format("\n  {}: {}", entry.name, offer.refusal);
  }
  throw Error(ErrorCode::unsupported,
              fmt::format("no CPU kernel takes {}:{}", to_string(call), refusals));
}

}  // namespace tilemesh::cpu
