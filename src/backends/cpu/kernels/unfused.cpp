#include "backends/cpu/kernels/unfused.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "tilemesh/base/error.hpp"

#include "backends/cpu/kernels/hwy/offers.hpp"

namespace tilemesh::cpu {
namespace {

class UnfusedKernel final : public Kernel {
 public:
  UnfusedKernel(std::size_t own_inputs, std::size_t result, std::unique_ptr<Kernel> op,
                std::unique_ptr<Kernel> chain)
      : result_(result), own_(own_inputs + 1), op_(std::move(op)), chain_(std::move(chain)) {}

  void run(std::byte* const* operands, std::byte* scratch) override {
    std::copy_n(operands, own_.size() - 1, own_.begin());
    own_.back() = operands[result_];
    op_->run(own_.data(), scratch);
    chain_->run(operands, scratch);
  }
  std::int64_t scratch_bytes() const override {
    return std::max(op_->scratch_bytes(), chain_->scratch_bytes());
  }
  int threads() const override { return std::max(op_->threads(), chain_->threads()); }
  std::string_view name() const override { return op_->name(); }

 private:
  std::size_t result_;
  std::vector<std::byte*> own_;  // the op's operands
  std::unique_ptr<Kernel> op_;
  std::unique_ptr<Kernel> chain_;
};

}  // namespace

std::unique_ptr<Kernel> make_unfused(const OpCall& call, const KernelContext& context) {
  OpCall op = call;
  op.epilogue = {};
  const auto most = static_cast<std::size_t>(std::max(call.def->max_inputs, 0));
  op.inputs.resize(std::min(call.inputs.size(), most), OperandType{DType::f32, {}, {}, false});
  KernelOffer chain = highway::offer_epilogue(call, context);
  if (!chain.kernel) {
    throw Error(ErrorCode::unsupported, "no pass takes the epilogue: " + chain.refusal);
  }
  return std::make_unique<UnfusedKernel>(op.inputs.size(), call.inputs.size(),
                                         make_kernel(op, context), std::move(chain.kernel));
}

}  // namespace tilemesh::cpu
