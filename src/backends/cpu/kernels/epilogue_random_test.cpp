#include <array>
#include <bit>
#include <limits>
#include <random>

#include "backends/cpu/kernels/dnnl/kernels.hpp"
#include "backends/cpu/kernels/kernel_testing.hpp"
#include "backends/cpu/kernels/unfused.hpp"
#include "backends/cpu/target.hpp"

/// Epilogues as the compiler makes them, step by step for as long as the target agrees, with
/// numbers that differ from step to step and with NaN and infinity in the operands, against the
/// reference.

namespace tilemesh::cpu {
namespace {

using namespace testing;
using Step = ExpressionStep;
using Integers = std::vector<std::int64_t>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}

  std::int64_t number(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  bool one_in(std::int64_t count) { return number(1, count) == 1; }
  template <class T, std::size_t kCount>
  T pick(const std::array<T, kCount>& list) {
    return list[static_cast<std::size_t>(number(0, kCount - 1))];
  }

  std::vector<float> values(const Shape& shape, bool with_specials) {
    constexpr std::array kSpecials{std::bit_cast<float>(0xffffffffU), kInfinity, -kInfinity, -0.0F};
    std::uniform_real_distribution<float> real(-1, 1);
    std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
    for (float& value : values) {
      value = real(random_);
      if (with_specials && one_in(static_cast<std::int64_t>(values.size()) / 3 + 2)) {
        value = pick(kSpecials);
      }
    }
    return values;
  }

  OpCall op(DType dtype) {
    const std::int64_t n = number(1, 2);
    switch (number(0, 3)) {
      case 0: {
        const std::int64_t k = pick<std::int64_t, 4>({3, 16, 33, 64});
        const std::int64_t columns = pick<std::int64_t, 4>({1, 6, 16, 48});
        const Shape a = one_in(2) ? Shape{number(1, 40), k} : Shape{n, number(1, 9), k};
        return make_call("matmul", {}, {operand(a, {}, dtype), operand({k, columns}, {}, dtype)});
      }
      case 1: {
        const std::int64_t c = pick<std::int64_t, 3>({4, 8, 16});
        return make_call(
            "conv_transpose", {{"strides", Integers{2, 2}}},
            {operand({n, c, 5, 5}, {}, dtype),
             operand({c, pick<std::int64_t, 3>({4, 7, 16}), one_in(2) ? 2 : 3, 2}, {}, dtype),
             absent()});
      }
      default: {
        const std::int64_t c = pick<std::int64_t, 4>({1, 3, 16, 32});
        const std::int64_t k = one_in(2) ? 1 : 3;
        const bool is_depthwise = c > 3 && one_in(4);
        const std::int64_t m = is_depthwise ? c : pick<std::int64_t, 4>({4, 7, 16, 32});
        std::vector<OperandType> inputs{operand({n, c, 6, 6}, {}, dtype),
                                        operand({m, is_depthwise ? 1 : c, k, k}, {}, dtype),
                                        one_in(2) ? operand({m}, {}, dtype) : absent()};
        return make_call(
            "conv",
            {{"pads", Integers{k / 2, k / 2, k / 2, k / 2}}, {"group", is_depthwise ? c : 1}},
            inputs);
      }
    }
  }

  /// A step over the value so far, and the operand that it needs.
  Step step(const OpCall& call, std::int16_t value, OperandType& extra) {
    constexpr std::array kUnary{ScalarFn::neg,          ScalarFn::abs,        ScalarFn::exp,
                                ScalarFn::relu,         ScalarFn::tanh,       ScalarFn::leaky_relu,
                                ScalarFn::hard_sigmoid, ScalarFn::hard_swish, ScalarFn::clip,
                                ScalarFn::sigmoid,      ScalarFn::linear,     ScalarFn::elu,
                                ScalarFn::swish,        ScalarFn::gelu,       ScalarFn::leaky_relu,
                                ScalarFn::linear,       ScalarFn::clip};
    constexpr std::array kBinary{ScalarFn::add, ScalarFn::sub, ScalarFn::mul,
                                 ScalarFn::max, ScalarFn::min, ScalarFn::div};
    extra.present = false;
    if (one_in(2)) {
      const ScalarFn fn = pick(kUnary);
      Step step{fn,
                {value, value},
                pick<float, 4>({0.1F, 0.7F, 1, -1.5F}),
                pick<float, 3>({0.25F, -0.5F, 0})};
      if (fn == ScalarFn::clip) {
        step.alpha = pick<float, 4>({0, -1, -0.3F, -kInfinity});
        step.beta = pick<float, 4>({6, 1, 0.4F, kInfinity});
      }
      return step;
    }
    const Shape& y = call.outputs[0].shape;
    Shape shape = y;
    if (const std::int64_t kind = number(0, 3); kind == 0) {
      shape = {};
    } else if (kind == 1) {
      const int dim = call.def->name == "matmul" ? y.rank() - 1 : 1;
      Dims dims;
      dims.resize(static_cast<std::size_t>(y.rank() - dim), 1);
      dims[0] = y[dim];
      shape = Shape(dims);
    }
    extra = operand(shape, {}, call.outputs[0].dtype);
    const auto index = static_cast<std::int16_t>(Step::kOperand + call.inputs.size());
    Step step{pick(kBinary), {value, index}, 0, 0};
    if (one_in(3)) std::swap(step.arguments[0], step.arguments[1]);
    return step;
  }

 private:
  std::mt19937 random_;
};

/// The call with as much of a random chain as the target takes.
OpCall with_epilogue(Dice& dice, OpCall call) {
  call.inputs.resize(static_cast<std::size_t>(call.def->max_inputs), absent());
  const std::int64_t most = dice.number(1, 6);
  for (std::int64_t i = 0; i < most; ++i) {
    OpCall grown = call;
    OperandType extra;
    const auto value = static_cast<std::int16_t>(call.epilogue.steps.size() - 1);
    grown.epilogue.steps.push_back(
        dice.step(call, call.epilogue.empty() ? Step::kResult : value, extra));
    if (extra.present) grown.inputs.push_back(extra);
    if (onednn::why_not_fused(grown, true).empty()) call = std::move(grown);
  }
  return call;
}

void fill(Dice& dice, const OpCall& call, bool with_specials, Fixture& fixture) {
  const auto own = static_cast<std::size_t>(call.def->max_inputs);
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i].present) continue;
    // Weights stay numbers: infinity times the zeros around an image is a matter of taste.
    const bool is_special = with_specials && (i == 0 || (i >= own && dice.one_in(3)));
    std::vector<float> values = dice.values(call.inputs[i].shape, is_special);
    if (i >= own) {  // quotients by numbers near 0 tell nothing
      for (float& value : values)
        value += std::copysign(0.25F, value);
    }
    fixture.set_input(i, values);
  }
}

void check(DType dtype, unsigned seed, int count, float tolerance) {
  Dice dice(seed);
  int fused = 0;
  for (int i = 0; i < count; ++i) {
    const OpCall call = with_epilogue(dice, dice.op(dtype));
    fused += call.epilogue.empty() ? 0 : 1;
    const bool with_specials = dice.one_in(2);
    for (const int threads : {1, 2}) {
      const auto kernel = make_kernel(call, {.threads = threads});
      Fixture fixture(call, static_cast<unsigned>(i));
      fill(dice, call, with_specials, fixture);
      fixture.run(*kernel);
      fixture.expect_reference(tolerance, tolerance);
      if (::testing::Test::HasFatalFailure()) {
        FAIL() << "case " << i << " of seed " << seed << ", " << kernel->name();
      }
    }
  }
  EXPECT_GT(fused, count / 2);
}

TEST(Epilogues, RandomOnesAgreeWithTheReference) {
  TILEMESH_NEEDS_AVX2();
  check(DType::f32, 1, 400, 1e-3F);
}

TEST(Epilogues, RandomOnesOfBf16AgreeWithTheReference) {
  if (!onednn::library_isa().bf16) GTEST_SKIP() << "no bf16 arithmetic on this processor";
  check(DType::bf16, 2, 100, 8e-2F);
}

/// Every kind that can repeat, with the same numbers and with others, over every op.
TEST(Epilogues, RefuseTwoOfAKindWithOtherNumbers) {
  TILEMESH_NEEDS_AVX2();
  const std::vector<OpCall> calls{
      make_call("matmul", {}, {operand({8, 16}), operand({16, 16})}),
      make_call("conv", {}, {operand({1, 16, 5, 5}), operand({16, 16, 1, 1}), absent()}),
      make_call("conv", {}, {operand({1, 3, 5, 5}), operand({7, 3, 3, 3}), absent()}),
      make_call("conv_transpose", {{"strides", Integers{2, 2}}},
                {operand({1, 8, 5, 5}), operand({8, 4, 2, 2}), absent()})};
  const auto step = [](ScalarFn fn, std::int16_t value, float alpha, float beta = 0) {
    return Step{fn, {value, value}, alpha, beta};
  };
  constexpr std::int16_t kR = Step::kResult;
  const auto pair = [&](ScalarFn fn, float a, float b, float c = 0, float d = 0) {
    return std::vector<Step>{step(fn, kR, a, b), step(fn, 0, c, d)};
  };
  struct Row {
    std::vector<Step> steps;
    bool fuses;
  };
  const std::vector<Row> rows{
      {pair(ScalarFn::linear, 2, 1, 3, 1), false},
      {pair(ScalarFn::linear, 2, 1, 2, 1), true},
      {pair(ScalarFn::linear, 2, 0, 2, -0.0F), false},
      {pair(ScalarFn::clip, 0, 6, -1, 1), false},
      {pair(ScalarFn::clip, 0, 6, 0, 6), true},
      {pair(ScalarFn::leaky_relu, 0.1F, 0, 0.2F, 0), false},
      {pair(ScalarFn::elu, 1, 0, 0.5F, 0), false},
      {pair(ScalarFn::swish, 1, 0, 1.7F, 0), false},
      {{step(ScalarFn::relu, kR, 0), step(ScalarFn::leaky_relu, 0, 0.1F)}, false},
      {{step(ScalarFn::clip, kR, 0, kInfinity), step(ScalarFn::leaky_relu, 0, 0.1F)}, false},
      {{step(ScalarFn::relu, kR, 0), step(ScalarFn::clip, 0, 0, kInfinity)}, true},
      {{step(ScalarFn::neg, kR, 0), step(ScalarFn::linear, 0, 0.7F)}, false},
      {{step(ScalarFn::linear, kR, 0.5F), step(ScalarFn::hard_sigmoid, 0, 0.2F, 0.5F)}, false},
      {{step(ScalarFn::hard_sigmoid, kR, 0.2F, 0.5F), step(ScalarFn::clip, 0, 0.1F, 0.9F)}, false},
      {{step(ScalarFn::tanh, kR, 0), step(ScalarFn::tanh, 0, 0)}, true}};
  for (OpCall call : calls) {
    for (const Row& row : rows) {
      call.epilogue.steps = row.steps;
      EXPECT_EQ(onednn::why_not_fused(call, true).empty(), row.fuses) << to_string(call);
      EXPECT_EQ(onednn::why_not_fused(call, false).empty(), row.fuses) << to_string(call);
      const auto kernel = make_kernel(call, {.threads = 1});  // whatever it is, it is right
      Fixture fixture(call);
      fixture.run(*kernel);
      fixture.expect_reference(1e-3F, 1e-4F);
      if (HasFatalFailure()) return;
    }
  }
}

/// What oneDNN computes with a small absolute error, though the result may be smaller yet.
TEST(Epilogues, RefuseWhatLosesSmallResults) {
  TILEMESH_NEEDS_AVX2();
  for (const ScalarFn fn : {ScalarFn::softplus, ScalarFn::log}) {
    const OpCall call = make_call("matmul", {}, {operand({4, 1}), operand({1, 1})}, {},
                                  {{{fn, {Step::kResult, Step::kResult}}}});
    EXPECT_FALSE(onednn::why_not_fused(call, true).empty()) << to_string(fn);
    EXPECT_FALSE(onednn::why_not_fused(call, false).empty()) << to_string(fn);
  }
}

/// One NaN and the two infinities through each step by itself.
TEST(Epilogues, KeepWhatIsNoNumber) {
  TILEMESH_NEEDS_AVX2();
  constexpr std::array kSteps{
      Step{ScalarFn::relu, {Step::kResult, Step::kResult}, 0, 0},
      Step{ScalarFn::leaky_relu, {Step::kResult, Step::kResult}, 0.1F, 0},
      Step{ScalarFn::clip, {Step::kResult, Step::kResult}, 0, 6},
      Step{ScalarFn::sigmoid, {Step::kResult, Step::kResult}, 0, 0},
      Step{ScalarFn::hard_sigmoid, {Step::kResult, Step::kResult}, 0.2F, 0.5F},
      Step{ScalarFn::hard_swish, {Step::kResult, Step::kResult}, 0, 0},
      Step{ScalarFn::exp, {Step::kResult, Step::kResult}, 0, 0},
      Step{ScalarFn::tanh, {Step::kResult, Step::kResult}, 0, 0},
      Step{ScalarFn::gelu, {Step::kResult, Step::kResult}, 0, 0},
      Step{ScalarFn::gelu_tanh, {Step::kResult, Step::kResult}, 0, 0},
      Step{ScalarFn::elu, {Step::kResult, Step::kResult}, 1, 0},
      Step{ScalarFn::swish, {Step::kResult, Step::kResult}, 1, 0},
      Step{ScalarFn::abs, {Step::kResult, Step::kResult}, 0, 0},
      Step{ScalarFn::max, {Step::kResult, Step::kOperand + 3}, 0, 0},
      Step{ScalarFn::min, {Step::kOperand + 3, Step::kResult}, 0, 0}};
  for (const auto& [channels, kernel_size, layout] :
       {std::tuple{16, 3, Layout::blocked(1, 16)}, std::tuple{16, 1, Layout::blocked(1, 8)},
        std::tuple{3, 3, Layout::rows()}, std::tuple{32, 3, Layout::channels_last(4)}}) {
    for (const Step& step : kSteps) {
      std::vector<OperandType> inputs{operand({1, channels, 6, 6}, layout),
                                      operand({16, channels, kernel_size, kernel_size}),
                                      operand({16})};
      if (arity(step.fn) == 2) inputs.push_back(operand({1}));
      const OpCall call = make_call("conv", {}, inputs, layout, {{step}});
      const auto kernel = make_kernel(call, {.threads = 1});
      Fixture fixture(call);
      std::vector<float> image(static_cast<std::size_t>(channels) * 36, 0.5F);
      image[0] = kNan;
      image[5] = kInfinity;
      image[35] = -kInfinity;
      fixture.set_input(0, image);
      fixture.run(*kernel);
      fixture.expect_reference(1e-4F, 1e-5F);
      fixture.set_input(0, std::vector<float>(image.size(), 0.5F));
      fixture.run(*kernel);  // numbers again, by the fast way again
      fixture.expect_reference(1e-4F, 1e-5F);
      if (HasFatalFailure()) FAIL() << kernel->name();
    }
  }
}

TEST(Epilogues, KeepNotANumberInATeam) {
  TILEMESH_NEEDS_AVX2();
  const OpCall call = make_call("matmul", {}, {operand({512, 256}), operand({256, 256})}, {},
                                {{{ScalarFn::relu, {Step::kResult, Step::kResult}}}});
  const auto kernel = make_kernel(call, {.threads = 2});
  Fixture fixture(call);
  for (const std::size_t at : {std::size_t{0}, std::size_t{512 * 256 - 1}}) {
    std::vector<float> a(512 * 256, 0.5F);
    a[at] = kNan;
    fixture.set_input(0, a);
    fixture.run(*kernel);
    EXPECT_TRUE(std::isnan(fixture.output()[at / 256 * 256]));
    EXPECT_FALSE(std::isnan(fixture.output()[256 * 256]));
  }
}

}  // namespace
}  // namespace tilemesh::cpu
