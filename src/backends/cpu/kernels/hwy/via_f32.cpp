#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

#include "chunk.hpp"
#include "offers.hpp"

namespace tilemesh::cpu::highway {
namespace {

bool is_small_float(const OperandType& type) {
  return type.present && (type.dtype == DType::f16 || type.dtype == DType::bf16);
}

/// Widens the small floats among the inputs, runs a kernel of f32, and rounds its outputs.
class ViaF32Kernel final : public Kernel {
 public:
  ViaF32Kernel(const OpCall& call, std::unique_ptr<Kernel> kernel)
      : kernel_(std::move(kernel)), name_(fmt::format("highway:f32+{}", kernel_->name())) {
    std::int64_t offset = 0;
    const auto plan = [&](const OperandType& type, std::size_t place, bool is_input) {
      if (!is_small_float(type)) return;
      const std::int64_t count = type.layout.element_count(type.shape);
      const ChunkFn fn =
          is_input ? half_chunk(type.dtype, DType::f32) : half_chunk(DType::f32, type.dtype);
      changes_.push_back({place, count, offset, fn, is_input});
      offset += round_up(count * 4, std::int64_t{64});
    };
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      plan(call.inputs[i], i, true);
    }
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      plan(call.outputs[i], call.inputs.size() + i, false);
    }
    operands_.resize(call.inputs.size() + call.outputs.size());
    inner_offset_ = offset;
  }

  void run(std::byte* const* operands, std::byte* scratch) override {
    std::copy_n(operands, operands_.size(), operands_.begin());
    for (const Change& change : changes_) {
      std::byte* wide = scratch + change.offset;
      operands_[change.place] = wide;
      if (change.is_input) {
        change.fn({.in = {operands[change.place]}, .out = wide, .count = change.count});
      }
    }
    kernel_->run(operands_.data(), scratch + inner_offset_);
    for (const Change& change : changes_) {
      if (change.is_input) continue;
      change.fn(
          {.in = {scratch + change.offset}, .out = operands[change.place], .count = change.count});
    }
  }
  std::int64_t scratch_bytes() const override { return inner_offset_ + kernel_->scratch_bytes(); }
  int threads() const override { return kernel_->threads(); }
  std::string_view name() const override { return name_; }

 private:
  struct Change {
    std::size_t place = 0;
    std::int64_t count = 0;
    std::int64_t offset = 0;  // of the f32 form in scratch
    ChunkFn fn = nullptr;
    bool is_input = true;
  };
  std::unique_ptr<Kernel> kernel_;
  std::string name_;
  std::vector<Change> changes_;
  std::vector<std::byte*> operands_;
  std::int64_t inner_offset_ = 0;
};

}  // namespace

KernelOffer offer_via_f32(const OpCall& call, const KernelContext& context) {
  if (call.def->name == "cast" || call.def->name == "convert")
    return {nullptr, "a change of dtype"};
  OpCall wide = call;
  bool any = false;
  for (auto* operands : {&wide.inputs, &wide.outputs}) {
    for (OperandType& type : *operands) {
      if (type.present && type.layout.is_opaque()) return {nullptr, "an opaque layout"};
      if (!is_small_float(type)) continue;
      type.dtype = DType::f32;
      any = true;
    }
  }
  if (!any) return {nullptr, "no operand of f16 or bf16"};
  for (const KernelEntry& entry : kernel_list(call.def->name)) {
    if (entry.offer == offer_via_f32) break;  // the reference computes in double anyway
    KernelOffer offer = ask(entry, wide, context);
    if (offer.kernel) return {std::make_unique<ViaF32Kernel>(call, std::move(offer.kernel)), ""};
  }
  return {nullptr, "no kernel of f32"};
}

}  // namespace tilemesh::cpu::highway
