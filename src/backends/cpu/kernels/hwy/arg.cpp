#include <cmath>
#include <string>

#include "offers.hpp"
#include "parallel.hpp"

namespace tilemesh::cpu::highway {
namespace {

constexpr double kNanosecondsPerElement = 0.6;

/// arg_max and arg_min of f32 in rows, seen as [outer, size, inner]. NaN is chosen over every
/// number.
class ArgKernel final : public Kernel {
 public:
  ArgKernel(const OpCall& call, int axis, int device_threads)
      : largest_(call.def->name == "arg_max"),
        last_(call.attributes.integer("select_last_index") != 0) {
    const Shape& shape = call.inputs[0].shape;
    size_ = shape[axis];
    for (int d = 0; d < shape.rank(); ++d) {
      if (d < axis) outer_ *= shape[d];
      if (d > axis) inner_ *= shape[d];
    }
    const auto elements = static_cast<double>(shape.element_count());
    threads_ = threads_for(elements * kNanosecondsPerElement, device_threads);
  }

  void run(std::byte* const* operands, std::byte* /*scratch*/) override {
    const auto* x = reinterpret_cast<const float*>(operands[0]);
    auto* places = reinterpret_cast<std::int64_t*>(operands[1]);
    parallel_for(threads_, outer_, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o) {
        for (std::int64_t i = 0; i < inner_; ++i) {
          places[o * inner_ + i] = place_in(x + o * size_ * inner_ + i);
        }
      }
    });
  }
  int threads() const override { return threads_; }
  std::string_view name() const override {
    return largest_ ? "highway:arg_max" : "highway:arg_min";
  }

 private:
  std::int64_t place_in(const float* x) const {
    float best = *x;
    std::int64_t place = 0;
    if (std::isnan(best)) return nan_place(x, 0);
    for (std::int64_t k = 1; k < size_; ++k) {
      const float value = x[k * inner_];
      const bool worse = largest_ ? value <= best : value >= best;  // not if it is NaN
      if (!worse || (last_ && value == best)) {
        if (std::isnan(value)) return nan_place(x, k);
        best = value;
        place = k;
      }
    }
    return place;
  }

  std::int64_t nan_place(const float* x, std::int64_t first) const {
    std::int64_t place = first;
    for (std::int64_t k = first + 1; last_ && k < size_; ++k) {
      if (std::isnan(x[k * inner_])) place = k;
    }
    return place;
  }

  bool largest_;
  bool last_;
  std::int64_t outer_ = 1;
  std::int64_t size_ = 1;
  std::int64_t inner_ = 1;
  int threads_ = 1;
};

}  // namespace

KernelOffer offer_arg(const OpCall& call, const KernelContext& context) {
  if (std::string reason = why_not(call); !reason.empty()) return {nullptr, reason};
  const OperandType& x = call.inputs[0];
  if (x.dtype != DType::f32) return {nullptr, "a dtype other than f32"};
  if (!x.layout.is_rows() || !call.outputs[0].layout.is_rows()) {
    return {nullptr, "a layout other than rows"};
  }
  const auto axis = static_cast<int>(call.attributes.integer("axis"));
  return {std::make_unique<ArgKernel>(call, axis, context.threads), ""};
}

}  // namespace tilemesh::cpu::highway
