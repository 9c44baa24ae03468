#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "offers.hpp"
#include "parallel.hpp"

namespace tilemesh::cpu::highway {
namespace {

/// Copies runs of bytes that indices name: data [outer, size, run], result [outer, indices, run].
class GatherKernel final : public Kernel {
 public:
  GatherKernel(const OpCall& call, int axis)
      : wide_(call.inputs[1].dtype == DType::i64), count_(call.inputs[1].shape.element_count()) {
    const Shape& data = call.inputs[0].shape;
    size_ = data[axis];
    run_bytes_ = size_of(call.inputs[0].dtype);
    for (int d = 0; d < data.rank(); ++d) {
      if (d < axis) outer_ *= data[d];
      if (d > axis) run_bytes_ *= data[d];
    }
  }

  void run(std::byte* const* operands, std::byte* /*scratch*/) override {
    const std::byte* data = operands[0];
    std::byte* target = operands[2];
    if (run_bytes_ == 0) return;
    for (std::int64_t o = 0; o < outer_; ++o, data += size_ * run_bytes_) {
      for (std::int64_t i = 0; i < count_; ++i, target += run_bytes_) {
        const std::byte* source = data + index_at(operands[1], i) * run_bytes_;
        switch (run_bytes_) {
          case 4: std::memcpy(target, source, 4); break;
          case 8: std::memcpy(target, source, 8); break;
          default: std::memcpy(target, source, static_cast<std::size_t>(run_bytes_));
        }
      }
    }
  }
  int threads() const override { return 1; }
  std::string_view name() const override { return "highway:gather"; }

 private:
  std::int64_t index_at(const std::byte* indices, std::int64_t i) const {
    const std::int64_t index = wide_ ? reinterpret_cast<const std::int64_t*>(indices)[i]
                                     : reinterpret_cast<const std::int32_t*>(indices)[i];
    const std::int64_t wrapped = index < 0 ? index + size_ : index;
    if (wrapped < 0 || wrapped >= size_) [[unlikely]] {
      throw Error(ErrorCode::kernel_failed,
                  fmt::format("gather: index {} is outside of a dim of {}", index, size_));
    }
    return wrapped;
  }

  bool wide_;
  std::int64_t count_;
  std::int64_t size_ = 0;
  std::int64_t outer_ = 1;
  std::int64_t run_bytes_ = 1;
};

}  // namespace

KernelOffer offer_gather(const OpCall& call, const KernelContext& /*context*/) {
  for (const OperandType* type : {&call.inputs[0], &call.inputs[1], &call.outputs[0]}) {
    if (!type->layout.is_rows()) return {nullptr, "a layout other than rows"};
  }
  if (!call.epilogue.empty()) return {nullptr, "an epilogue"};
  const auto axis = static_cast<int>(call.attributes.integer("axis"));
  return {std::make_unique<GatherKernel>(call, axis), ""};
}

}  // namespace tilemesh::cpu::highway
