#include "backends/cpu/kernels/matmul_gemm.hpp"

#include <cmath>
#include <limits>

#include "backends/cpu/kernels/kernel_testing.hpp"

namespace tilemesh::cpu {
namespace {

using namespace testing;
using Step = ExpressionStep;

constexpr std::int16_t kFirst = Step::kOperand + 2;
constexpr std::int16_t kSecond = kFirst + 1;

const Expression kBias{{{ScalarFn::add, {Step::kResult, kFirst}}}};
const Expression kBiasAndGelu{{{ScalarFn::add, {kFirst, Step::kResult}}, {ScalarFn::gelu, {0, 0}}}};
const Expression kBiasAndResidual{
    {{ScalarFn::add, {Step::kResult, kFirst}}, {ScalarFn::add, {kSecond, 0}}}};
const Expression kGelu{{{ScalarFn::gelu, {Step::kResult, Step::kResult}}}};

OpCall gemm_call(const Shape& a, std::int64_t columns, const Expression& epilogue,
                 const std::vector<Shape>& operands = {}, bool transpose = false) {
  const std::int64_t depth = a[a.rank() - 1];
  std::vector<OperandType> inputs{
      operand(a), operand(transpose ? Shape{columns, depth} : Shape{depth, columns})};
  for (const Shape& shape : operands) {
    inputs.push_back(operand(shape));
  }
  OpCall call =
      make_call("matmul", {{"transpose_b", std::int64_t{transpose}}}, inputs, {}, epilogue);
  call.inputs[1].layout = matmul_gemm_weights(call);
  return call;
}

void check(const OpCall& call) {
  const KernelOffer offer = offer_matmul_gemm(call, {.threads = 1});
  ASSERT_TRUE(offer.kernel) << to_string(call) << ": " << offer.refusal;
  EXPECT_EQ(offer.kernel->threads(), 1);
  Fixture fixture(call);
  fixture.run(*offer.kernel);
  fixture.expect_reference(2e-4F, 2e-5F);
}

TEST(MatmulGemm, AgreesWithTheReference) {
  for (const Shape& a : {Shape{64, 64}, Shape{65, 131}, Shape{2, 3, 11, 67}, Shape{1, 128, 96}}) {
    for (const std::int64_t n : {64, 97, 384}) {
      for (const bool transpose : {false, true}) {
        const Shape y = a.with(a.rank() - 1, n);
        check(gemm_call(a, n, {}, {}, transpose));
        check(gemm_call(a, n, kGelu, {}, transpose));
        check(gemm_call(a, n, kBias, {{n}}, transpose));
        check(gemm_call(a, n, kBias, {y}, transpose));  // a residual alone
        check(gemm_call(a, n, kBiasAndGelu, {{1, n}}, transpose));
        check(gemm_call(a, n, kBiasAndResidual, {{n}, y}, transpose));
        check(gemm_call(a, n, kBiasAndResidual, {y, {n}}, transpose));
      }
    }
  }
}

TEST(MatmulGemm, AddsToAResidualInPlace) {
  for (const bool with_bias : {false, true}) {
    const OpCall call =
        gemm_call({64, 64}, 64, with_bias ? kBiasAndResidual : kBias,
                  with_bias ? std::vector<Shape>{{64}, {64, 64}} : std::vector<Shape>{{64, 64}});
    const KernelOffer offer = offer_matmul_gemm(call, {.threads = 1});
    ASSERT_TRUE(offer.kernel) << offer.refusal;
    std::vector<float> a(64 * 64, 0.5F);
    std::vector<float> b(64 * 64, 0.25F);
    std::vector<float> bias(64, 3.0F);
    std::vector<float> y(64 * 64, 2.0F);
    const auto bytes = [](std::vector<float>& values) {
      return reinterpret_cast<std::byte*>(values.data());
    };
    std::vector<std::byte*> operands{bytes(a), bytes(b)};
    if (with_bias) operands.push_back(bytes(bias));
    operands.insert(operands.end(), {bytes(y), bytes(y)});
    offer.kernel->run(operands.data(), nullptr);
    for (const float value : y) {
      ASSERT_EQ(value, (with_bias ? 5.0F : 2.0F) + 64 * 0.125F);
    }
  }
}

TEST(MatmulGemm, ReadsNothingOfTheResultAndPassesNotANumberOn) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const OpCall call = gemm_call({64, 64}, 64, {});
  const KernelOffer offer = offer_matmul_gemm(call, {.threads = 1});
  ASSERT_TRUE(offer.kernel) << offer.refusal;
  std::vector<float> a(64 * 64, 1.0F);
  std::vector<float> b(64 * 64, 1.0F);
  std::vector<float> y(64 * 64, kNan);
  a[3] = kNan;
  std::byte* const operands[] = {reinterpret_cast<std::byte*>(a.data()),
                                 reinterpret_cast<std::byte*>(b.data()),
                                 reinterpret_cast<std::byte*>(y.data())};
  offer.kernel->run(operands, nullptr);
  for (std::size_t i = 0; i < y.size(); ++i) {
    ASSERT_TRUE(i < 64 ? std::isnan(y[i]) : y[i] == 64.0F) << i;
  }
}

TEST(MatmulGemm, RefusesWhatItDoesntKnow) {
  const auto refusal = [](const OpCall& call, int threads = 1) {
    const KernelOffer offer = offer_matmul_gemm(call, {.threads = threads});
    EXPECT_FALSE(offer.kernel) << to_string(call);
    EXPECT_FALSE(offer.refusal.empty());
  };
  refusal(gemm_call({64, 64}, 64, {}), 2);
  refusal(gemm_call({63, 64}, 64, {}));
  refusal(gemm_call({64, 63}, 64, {}));
  refusal(gemm_call({64, 64}, 63, {}));
  refusal(gemm_call({0, 64}, 64, {}));
  refusal(gemm_call({64, 0}, 64, {}));
  refusal(gemm_call({64, 64}, 0, {}));
  refusal(gemm_call({64}, 64, {}));
  for (const Shape& other : {Shape{}, Shape{1}, Shape{64, 1}}) {
    refusal(gemm_call({64, 64}, 64, kBias, {other}));
  }
  refusal(gemm_call({64, 64}, 64, kBiasAndResidual, {{64}, {64}}));
  refusal(gemm_call({64, 64}, 64, kBiasAndResidual, {{64, 64}, {64, 64}}));
  refusal(gemm_call({64, 64}, 64, {{{ScalarFn::relu, {Step::kResult, 0}}}}));
  refusal(gemm_call({64, 64}, 64,
                    {{{ScalarFn::gelu, {Step::kResult, 0}}, {ScalarFn::add, {0, kFirst}}}},
                    {{64}}));
  refusal(gemm_call({64, 64}, 64, {{{ScalarFn::mul, {Step::kResult, kFirst}}}}, {{64}}));
  OpCall call = gemm_call({64, 64}, 64, {});
  call.inputs[1].layout = Layout({1, 0}, {});
  refusal(call);
  call = gemm_call({64, 64}, 64, {}, {}, true);
  call.inputs[1].layout = Layout::rows();
  refusal(call);
  refusal(make_call("matmul", {{"transpose_a", std::int64_t{1}}},
                    {operand({64, 64}), operand({64, 64})}));
  refusal(make_call("matmul", {}, {operand({2, 64, 64}), operand({2, 64, 64})}));
}

}  // namespace
}  // namespace tilemesh::cpu
