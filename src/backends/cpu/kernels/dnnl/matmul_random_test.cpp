#include <algorithm>
#include <random>

#include "backends/cpu/kernels/dnnl/kernels.hpp"
#include "backends/cpu/kernels/kernel_testing.hpp"

namespace tilemesh::cpu {
namespace {

using namespace testing;
using Step = ExpressionStep;

/// Draws products of matrices, batches and stacks of one matrix, with epilogues.
class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}

  std::int64_t number(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  bool coin() { return number(0, 1) == 1; }

  OpCall matmul() {
    const std::int64_t rows = coin() ? number(1, 4) : number(5, 70);
    const std::int64_t depth = number(1, 70);
    const std::int64_t columns = coin() ? number(1, 9) : number(10, 140);
    const bool transpose_a = number(0, 3) == 0;
    const bool transpose_b = coin();
    Dims a;
    Dims b;
    const std::int64_t batch_dims = number(0, 2);
    const bool one_matrix = coin();
    for (std::int64_t dim = 0; dim < batch_dims; ++dim) {
      const std::int64_t size = number(1, 4);
      a.push_back(size);
      if (!one_matrix) {
        b.push_back(number(0, 4) == 0 ? 1 : size);
      }
    }
    add_matrix(a, rows, depth, transpose_a);
    add_matrix(b, depth, columns, transpose_b);
    const Attributes attributes{{"transpose_a", std::int64_t{transpose_a}},
                                {"transpose_b", std::int64_t{transpose_b}}};
    std::vector<OperandType> inputs{operand(Shape(a)), operand(Shape(b))};
    const Shape output = make_call("matmul", attributes, inputs).outputs[0].shape;
    Expression epilogue;
    if (number(0, 2) == 0) {
      return make_call("matmul", attributes, in_any_order(std::move(inputs)), order(output.rank()));
    }
    add_steps(output, epilogue, inputs);
    return make_call("matmul", attributes, inputs, {}, epilogue);
  }

 private:
  Layout order(int rank) {
    Layout::Order order = Layout::rows().order(rank);
    std::shuffle(order.begin(), order.end(), random_);
    return Layout(order, {});
  }
  std::vector<OperandType> in_any_order(std::vector<OperandType> inputs) {
    for (OperandType& input : inputs) {
      if (coin()) {
        input.layout = order(input.shape.rank());
      }
    }
    return inputs;
  }

  static void add_matrix(Dims& dims, std::int64_t rows, std::int64_t columns, bool transpose) {
    dims.push_back(transpose ? columns : rows);
    dims.push_back(transpose ? rows : columns);
  }

  void add_steps(const Shape& output, Expression& epilogue, std::vector<OperandType>& inputs) {
    const std::int64_t count = number(0, 3);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int16_t value = i == 0 ? Step::kResult : static_cast<std::int16_t>(i - 1);
      if (coin()) {
        epilogue.steps.push_back(
            {coin() ? ScalarFn::gelu : ScalarFn::linear, {value, value}, 0.5F, 0.25F});
        continue;
      }
      const auto index = static_cast<std::int16_t>(Step::kOperand + inputs.size());
      epilogue.steps.push_back({coin() ? ScalarFn::add : ScalarFn::mul, {value, index}});
      inputs.push_back(coin() ? operand(output) : operand({output[output.rank() - 1]}));
    }
  }

  std::mt19937 random_;
};

TEST(OnednnMatmul, RandomOnesAgreeWithTheReference) {
  TILEMESH_NEEDS_AVX2();
  Dice dice(3);
  int taken = 0;
  for (unsigned i = 0; i < 300; ++i) {
    OpCall call = dice.matmul();
    if (const auto choice = onednn::choose_constant(call, 1); choice && dice.coin()) {
      call.inputs[1].layout = choice->layout;
    }
    KernelOffer offer = offer_of(call, "onednn");
    if (!offer.kernel) {
      EXPECT_FALSE(offer.refusal.empty());
      continue;
    }
    ++taken;
    Fixture fixture(call, i);
    fixture.run(*offer.kernel);
    fixture.expect_reference(2e-4F, 5e-5F);
    if (HasFatalFailure()) {
      FAIL() << "case " << i << ", " << offer.kernel->name();
    }
  }
  EXPECT_GT(taken, 150);
}

}  // namespace
}  // namespace tilemesh::cpu
