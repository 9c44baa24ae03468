#include "tilemesh/ops/target.hpp"

namespace tilemesh {
namespace {

/// A guess that orders plans by the bytes they move: there is no machine to ask.
constexpr double kSecondsPerByte = 1e-9;

class ReferenceTarget final : public Target {
 public:
  ReferenceTarget() { info_.backend = "reference"; }

  const TargetInfo& info() const override { return info_; }

  std::vector<Candidate> candidates(const OpCall& call,
                                    const std::vector<bool>& /*constant_inputs*/) const override {
    Candidate candidate;
    candidate.implementation = "reference";
    candidate.inputs.assign(call.inputs.size(), Layout::rows());
    candidate.outputs.assign(call.outputs.size(), Layout::rows());
    std::int64_t bytes = 0;
    for (const auto* operands : {&call.inputs, &call.outputs}) {
      for (const OperandType& type : *operands) {
        if (type.present) bytes += type.shape.element_count() * size_of(type.dtype);
      }
    }
    candidate.seconds = static_cast<double>(bytes) * kSecondsPerByte;
    return {candidate};
  }

  double convert_seconds(const OperandType& from, const Layout& /*to*/) const override {
    return 2 * static_cast<double>(from.bytes()) * kSecondsPerByte;
  }

  bool can_fuse(const OpCall& call, const ExpressionStep& /*step*/,
                const OperandType* /*operand*/) const override {
    return call.def->name == "map" || call.def->takes_epilogue;
  }

 private:
  TargetInfo info_;
};

}  // namespace

const Target& reference_target() {
  static const ReferenceTarget target;
  return target;
}

}  // namespace tilemesh
