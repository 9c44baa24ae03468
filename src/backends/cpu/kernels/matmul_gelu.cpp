#include "backends/cpu/kernels/matmul_gelu.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

#include "backends/cpu/kernels/dnnl/kernels.hpp"
#include "backends/cpu/kernels/hwy/gelu.hpp"

namespace tilemesh::cpu {
namespace {

constexpr std::int64_t kChunkBytes = 512 << 10;  // half of a usual second-level cache
constexpr std::int64_t kRowsOfATile = 16;        // fewer leave a product's registers idle

/// Rows that follow each other in `a` and the result.
struct Chunk {
  std::int64_t rows = 0;
  std::shared_ptr<Kernel> product;  // chunks of as many rows share one
};

class MatmulGelu final : public Kernel {
 public:
  MatmulGelu(const OpCall& call, std::vector<Chunk> chunks)
      : chunks_(std::move(chunks)),
        depth_(call.inputs[1].shape[0]),
        columns_(call.inputs[1].shape[1]),
        result_(call.inputs.size()),
        name_(fmt::format("{}+highway:gelu", chunks_.front().product->name())) {
    if (call.attributes.integer("transpose_b") != 0) {
      std::swap(depth_, columns_);
    }
    for (const Chunk& chunk : chunks_) {
      scratch_bytes_ = std::max(scratch_bytes_, chunk.product->scratch_bytes());
    }
  }

  void run(std::byte* const* operands, std::byte* scratch) override {
    std::array<std::byte*, kMostOperands> own{};
    std::copy_n(operands, result_ + 1, own.begin());
    for (const Chunk& chunk : chunks_) {
      chunk.product->run(own.data(), scratch);
      gelu_(reinterpret_cast<float*>(own[result_]), chunk.rows * columns_);
      own[0] += chunk.rows * depth_ * kElementBytes;
      own[result_] += chunk.rows * columns_ * kElementBytes;
    }
  }
  std::int64_t scratch_bytes() const override { return scratch_bytes_; }
  int threads() const override { return 1; }
  std::string_view name() const override { return name_; }

  static constexpr std::size_t kMostOperands = 4;  // a, b, bias and the result

 private:
  static constexpr std::int64_t kElementBytes = 4;

  std::vector<Chunk> chunks_;
  std::int64_t depth_;
  std::int64_t columns_;
  std::size_t result_;
  std::string name_;
  std::int64_t scratch_bytes_ = 0;
  highway::GeluFn gelu_ = highway::fast_gelu();
};

/// Empty, or why the call isn't of this form.
std::string why_not(const OpCall& call, const KernelContext& context) {
  const std::vector<ExpressionStep>& steps = call.epilogue.steps;
  if (steps.empty() || steps.back().fn != ScalarFn::gelu) return "the epilogue doesn't end in gelu";
  if (context.threads != 1) return "for one thread alone";
  if (steps.size() > 2 || call.inputs.size() != steps.size() + 1) {
    return "an epilogue other than a bias and gelu";
  }
  const OperandType& a = call.inputs[0];
  const OperandType& y = call.outputs[0];
  if (a.dtype != DType::f32 || y.dtype != DType::f32) return "not of f32";
  if (!a.layout.is_rows() || !y.layout.is_rows() || a.shape.rank() < 2) return "not in rows";
  if (call.inputs[1].shape.rank() != 2) return "more than one second matrix";
  if (call.attributes.integer("transpose_a") != 0) return "a transposed first operand";
  if (y.shape.element_count() == 0) return "no elements";
  if (steps.size() == 2) {
    const ExpressionStep& add = steps.front();
    const OperandType& bias = call.inputs[2];
    const bool is_sum = add.fn == ScalarFn::add &&
                        std::ranges::count(add.arguments, ExpressionStep::kResult) == 1 &&
                        std::ranges::count(add.arguments, ExpressionStep::kOperand + 2) == 1;
    const std::int64_t columns = y.shape[y.shape.rank() - 1];
    if (!is_sum || !bias.present || !bias.layout.is_rows() || bias.shape.rank() == 0 ||
        bias.shape[bias.shape.rank() - 1] != columns || bias.shape.element_count() != columns) {
      return "an epilogue other than a bias and gelu";
    }
  }
  return steps.back().arguments[0] == (steps.size() == 2 ? 0 : ExpressionStep::kResult)
             ? ""
             : "a gelu of something else than the result";
}

/// The product of so many of the call's rows, without gelu.
OpCall product_of(const OpCall& call, std::int64_t rows) {
  OpCall part = call;
  part.epilogue.steps.pop_back();
  const Shape& a = call.inputs[0].shape;
  const Shape& y = call.outputs[0].shape;
  part.inputs[0].shape = Shape{rows, a[a.rank() - 1]};
  part.outputs[0].shape = Shape{rows, y[y.rank() - 1]};
  if (part.inputs.size() > 2) {
    part.inputs[2].shape = Shape{y[y.rank() - 1]};
  }
  return part;
}

KernelOffer offer_product(const OpCall& call, const KernelContext& context) {
  KernelOffer offer{nullptr, "oneDNN has no matmul"};
  for (const OpKernel& kernel : onednn::kernels()) {
    if (kernel.op == "matmul") {
      offer = ask(kernel.entry, call, context);
    }
  }
  if (offer.kernel && offer.kernel->name().find("+reorder") != std::string_view::npos) {
    return {nullptr, "the second operand isn't packed for so few rows"};
  }
  return offer;
}

}  // namespace

KernelOffer offer_matmul_gelu(const OpCall& call, const KernelContext& context) {
  if (std::string reason = why_not(call, context); !reason.empty()) return {nullptr, reason};
  const Shape& y = call.outputs[0].shape;
  const std::int64_t columns = y[y.rank() - 1];
  const std::int64_t rows = y.element_count() / columns;
  const std::int64_t most = std::max(kRowsOfATile, kChunkBytes / (4 * columns));
  const std::int64_t count = (rows + most - 1) / most;
  const std::int64_t each = round_up((rows + count - 1) / count, kRowsOfATile);
  std::vector<Chunk> chunks;
  for (std::int64_t row = 0; row < rows; row += each) {
    const std::int64_t own = std::min(each, rows - row);
    if (!chunks.empty() && chunks.back().rows == own) {
      chunks.push_back(chunks.back());
      continue;
    }
    KernelOffer offer = offer_product(product_of(call, own), context);
    if (!offer.kernel) return offer;
    chunks.push_back({own, std::move(offer.kernel)});
  }
  return {std::make_unique<MatmulGelu>(call, std::move(chunks)), ""};
}

}  // namespace tilemesh::cpu
