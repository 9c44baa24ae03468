#include <random>

#include "backends/cpu/kernels/dnnl/kernels.hpp"
#include "backends/cpu/kernels/kernel_testing.hpp"

namespace tilemesh::cpu {
namespace {

using namespace testing;
using Step = ExpressionStep;
using Integers = std::vector<std::int64_t>;

/// Draws convolutions of every kind, with images and operands in layouts that needn't fit.
class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}

  std::int64_t number(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  bool coin() { return number(0, 1) == 1; }

  Layout image_layout(int rank) {
    switch (number(0, 3)) {
      case 0: return Layout::rows();
      case 1: return Layout::channels_last(rank);
      case 2: return Layout::blocked(1, 8);
      default: return Layout::blocked(1, 16);
    }
  }

  OpCall conv() {
    const auto spatial = static_cast<std::size_t>(number(1, 3));
    const int rank = static_cast<int>(spatial) + 2;
    const std::int64_t groups = coin() ? 1 : number(2, 9);
    const std::int64_t channels = groups * (coin() ? 1 : number(1, 20));
    const std::int64_t outputs = groups * (coin() ? 1 : number(1, 20));
    Dims image{number(1, 2), channels};
    Dims weights{outputs, channels / groups};
    Integers strides, dilations, pads(2 * spatial);
    for (std::size_t dim = 0; dim < spatial; ++dim) {
      const std::int64_t kernel = number(1, 3);
      strides.push_back(number(1, 3));
      dilations.push_back(number(1, 2));
      pads[dim] = number(0, 2);
      pads[spatial + dim] = number(0, 2);
      image.push_back((kernel - 1) * dilations[dim] + number(1, 7));
      weights.push_back(kernel);
    }
    std::vector<OperandType> inputs{operand(Shape(image), image_layout(rank)),
                                    operand(Shape(weights)),
                                    coin() ? operand({outputs}) : absent()};
    const Attributes attributes{
        {"strides", strides}, {"dilations", dilations}, {"pads", pads}, {"group", groups}};
    const Layout layout = coin() ? inputs[0].layout : image_layout(rank);
    const Shape output = make_call("conv", attributes, inputs).outputs[0].shape;
    Expression epilogue;
    add_steps(output, layout, epilogue, inputs);
    return make_call("conv", attributes, inputs, layout, epilogue);
  }

 private:
  void add_steps(const Shape& output, const Layout& layout, Expression& epilogue,
                 std::vector<OperandType>& inputs) {
    constexpr ScalarFn kUnary[] = {ScalarFn::relu, ScalarFn::hard_swish, ScalarFn::sigmoid,
                                   ScalarFn::linear, ScalarFn::swish};
    const std::int64_t count = number(0, 3);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int16_t value = i == 0 ? Step::kResult : static_cast<std::int16_t>(i - 1);
      if (coin()) {
        epilogue.steps.push_back({kUnary[number(0, 4)], {value, value}, 0.5F, 0.25F});
        continue;
      }
      const auto index = static_cast<std::int16_t>(Step::kOperand + inputs.size());
      epilogue.steps.push_back({coin() ? ScalarFn::add : ScalarFn::mul, {value, index}});
      Dims per_channel{output[1]};
      for (int dim = 2; dim < output.rank(); ++dim) {
        per_channel.push_back(1);
      }
      inputs.push_back(coin() ? operand(output, layout) : operand(Shape(per_channel)));
    }
  }

  std::mt19937 random_;
};

TEST(OnednnConv, RandomOnesAgreeWithTheReference) {
  TILEMESH_NEEDS_AVX2();
  Dice dice(7);
  int with_choice = 0;
  for (unsigned i = 0; i < 120; ++i) {
    OpCall call = dice.conv();
    if (const auto choice = onednn::choose_constant(call, 1); choice && dice.coin()) {
      call.inputs[1].layout = choice->layout;
      ++with_choice;
    }
    KernelOffer offer = offer_of(call, "onednn");
    ASSERT_TRUE(offer.kernel) << to_string(call) << ": " << offer.refusal;
    Fixture fixture(call, i);
    fixture.run(*offer.kernel);
    fixture.expect_reference(2e-4F, 5e-5F);
    if (HasFatalFailure()) {
      FAIL() << "case " << i << ", " << offer.kernel->name();
    }
  }
  EXPECT_GT(with_choice, 15);
}

}  // namespace
}  // namespace tilemesh::cpu
