#include "backends/cpu/kernels/matmul_gemm.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "backends/cpu/kernels/dnnl/gemm.hpp"
#include "backends/cpu/kernels/hwy/chunk.hpp"
#include "backends/cpu/kernels/hwy/gelu.hpp"

namespace tilemesh::cpu {
namespace {

using Step = ExpressionStep;

// Smaller products spend too much of their time on what surrounds the gemm.
constexpr std::int64_t kFewest = 64;

/// What is done besides the product, by the operands' numbers.
struct Plan {
  std::optional<std::size_t> bias;      // one row for all
  std::optional<std::size_t> residual;  // of the result's shape
  bool gelu = false;
};

/// The operand that the step adds to `value`; none if it does something else.
std::optional<std::size_t> added_operand(const Step& step, std::int16_t value) {
  if (step.fn != ScalarFn::add) return std::nullopt;
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}}) {
    if (step.arguments[at] == value && step.arguments[1 - at] >= Step::kOperand) {
      return static_cast<std::size_t>(step.arguments[1 - at] - Step::kOperand);
    }
  }
  return std::nullopt;
}

bool add_operand(const OpCall& call, std::size_t index, Plan& plan) {
  const OperandType& type = call.inputs[index];
  const Shape& y = call.outputs[0].shape;
  if (!type.present || type.dtype != DType::f32 || !type.layout.is_rows()) return false;
  const std::int64_t columns = y[y.rank() - 1];
  const bool is_row = type.shape.rank() > 0 && type.shape.rank() <= y.rank() &&
                      type.shape[type.shape.rank() - 1] == columns &&
                      type.shape.element_count() == columns;
  std::optional<std::size_t>& place = is_row ? plan.bias : plan.residual;
  if (place || (!is_row && type.shape != y)) return false;
  place = index;
  return true;
}

/// The epilogue in these terms; none if it is another one.
std::optional<Plan> plan_epilogue(const OpCall& call) {
  Plan plan;
  std::int16_t value = Step::kResult;
  for (std::size_t i = 0; i < call.epilogue.steps.size(); ++i) {
    const Step& step = call.epilogue.steps[i];
    const bool is_last = i + 1 == call.epilogue.steps.size();
    if (const auto operand = added_operand(step, value)) {
      if (!add_operand(call, *operand, plan)) return std::nullopt;
    } else if (step.fn == ScalarFn::gelu && step.arguments[0] == value && is_last) {
      plan.gelu = true;
    } else {
      return std::nullopt;
    }
    value = static_cast<std::int16_t>(i);
  }
  return plan;
}

struct Sizes {
  std::int64_t rows, columns, depth;
};
Sizes sizes_of(const OpCall& call) {
  const Shape& a = call.inputs[0].shape;
  const Shape& y = call.outputs[0].shape;
  const std::int64_t columns = y[y.rank() - 1];
  return {columns == 0 ? 0 : y.element_count() / columns, columns, a[a.rank() - 1]};
}

class MatmulGemm final : public Kernel {
 public:
  MatmulGemm(const OpCall& call, const Plan& plan)
      : plan_(plan), sizes_(sizes_of(call)), result_(call.inputs.size()) {}

  void run(std::byte* const* operands, std::byte* /*scratch*/) override {
    const auto floats = [&](std::size_t i) {
      return reinterpret_cast<float*>(operands[i]);
    };
    float* y = floats(result_);
    const bool has_sums = plan_.bias || plan_.residual;
    if (has_sums) {
      begin_sums(plan_.bias ? floats(*plan_.bias) : nullptr,
                 plan_.residual ? floats(*plan_.residual) : nullptr, y);
    }
    onednn::gemm(sizes_.rows, sizes_.columns, sizes_.depth, floats(0), floats(1), y, has_sums);
    if (plan_.gelu) {
      gelu_(y, sizes_.rows * sizes_.columns);
    }
  }
  int threads() const override { return 1; }
  std::string_view name() const override {
    return plan_.gelu ? "onednn:gemm+highway:gelu" : "onednn:gemm";
  }

 private:
  void begin_sums(const float* bias, const float* residual, float* y) const {
    const auto bytes = static_cast<std::size_t>(sizes_.columns) * sizeof(float);
    if (bias == nullptr) {
      if (residual != y) std::memcpy(y, residual, bytes * static_cast<std::size_t>(sizes_.rows));
      return;
    }
    for (std::int64_t row = 0; row < sizes_.rows; ++row) {
      const std::int64_t first = row * sizes_.columns;
      if (residual == nullptr) {
        std::memcpy(y + first, bias, bytes);
      } else {
        add_({.in = {reinterpret_cast<const std::byte*>(residual + first),
                     reinterpret_cast<const std::byte*>(bias)},
              .out = reinterpret_cast<std::byte*>(y + first),
              .count = sizes_.columns});
      }
    }
  }

  Plan plan_;
  Sizes sizes_;
  std::size_t result_;
  highway::ChunkFn add_ = highway::float_chunk(ScalarFn::add);
  highway::GeluFn gelu_ = highway::fast_gelu();
};

}  // namespace

Layout matmul_gemm_weights(const OpCall& call) {
  const bool transposed = call.attributes.integer("transpose_b") != 0;
  return transposed ? Layout({1, 0}, {}) : Layout::rows();
}

std::string why_no_matmul_gemm(const OpCall& call, int device_threads) {
  const OperandType& a = call.inputs[0];
  const OperandType& b = call.inputs[1];
  const OperandType& y = call.outputs[0];
  if (device_threads != 1) return "for one thread alone";
  if (a.dtype != DType::f32 || b.dtype != DType::f32 || y.dtype != DType::f32) return "not of f32";
  if (a.shape.rank() < 2 || b.shape.rank() != 2) return "more or less than one second matrix";
  if (call.attributes.integer("transpose_a") != 0) return "a transposed first operand";
  if (!a.layout.is_rows() || !y.layout.is_rows()) return "not in rows";
  if (b.layout != matmul_gemm_weights(call)) return "the second matrix lies in another order";
  const Sizes sizes = sizes_of(call);
  if (sizes.rows < kFewest || sizes.columns < kFewest || sizes.depth < kFewest) {
    return "too small a product";
  }
  if (std::max({sizes.rows, sizes.columns, sizes.depth}) > std::numeric_limits<int>::max()) {
    return "a larger product than the library counts";
  }
  return plan_epilogue(call) ? "" : "an epilogue other than bias, residual and gelu";
}

KernelOffer offer_matmul_gemm(const OpCall& call, const KernelContext& context) {
  if (std::string reason = why_no_matmul_gemm(call, context.threads); !reason.empty()) {
    return {nullptr, reason};
  }
  return {std::make_unique<MatmulGemm>(call, *plan_epilogue(call)), ""};
}

}  // namespace tilemesh::cpu
