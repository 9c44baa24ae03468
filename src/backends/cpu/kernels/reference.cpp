#include "backends/cpu/kernels/reference.hpp"

#include <algorithm>

namespace tilemesh::cpu {
namespace {

class ReferenceKernel final : public Kernel {
 public:
  explicit ReferenceKernel(const OpCall& call) : call_(call) {}

  void run(std::byte* const* operands, std::byte* /*scratch*/) override {
    const std::size_t inputs = call_.inputs.size();
    run_reference(call_, {operands, inputs}, {operands + inputs, call_.outputs.size()});
  }
  int threads() const override { return 1; }
  std::string_view name() const override { return "reference"; }

 private:
  OpCall call_;
};

bool is_opaque(const OperandType& operand) {
  return operand.present && operand.layout.is_opaque();
}

}  // namespace

KernelOffer offer_reference(const OpCall& call, const KernelContext& /*context*/) {
  if (std::ranges::any_of(call.inputs, is_opaque) || std::ranges::any_of(call.outputs, is_opaque)) {
    return {nullptr, "an operand in an opaque layout"};
  }
  return {std::make_unique<ReferenceKernel>(call), ""};
}

}  // namespace tilemesh::cpu
