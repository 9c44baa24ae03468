#include "backends/cpu/kernels/matmul_gelu.hpp"

#include <cmath>
#include <limits>

#include "backends/cpu/kernels/hwy/gelu.hpp"
#include "backends/cpu/kernels/kernel_testing.hpp"

namespace tilemesh::cpu {
namespace {

using namespace testing;
using Step = ExpressionStep;

constexpr std::int16_t kBias = Step::kOperand + 2;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

const Expression kGelu{{{ScalarFn::gelu, {Step::kResult, Step::kResult}}}};
const Expression kBiasAndGelu{{{ScalarFn::add, {Step::kResult, kBias}}, {ScalarFn::gelu, {0, 0}}}};

float gelu(float x) {
  highway::fast_gelu()(&x, 1);
  return x;
}

TEST(FastGelu, IsCloseEverywhere) {
  for (double x = -30; x < 30; x += 1.0 / 1024) {
    const double wanted = 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    ASSERT_NEAR(gelu(static_cast<float>(x)), wanted, 4e-7 * std::max(1.0, std::abs(x))) << x;
  }
  for (const float x : {1e-30F, 1e3F, 1e30F}) {
    EXPECT_NEAR(gelu(x) / x, x < 1 ? 0.5F : 1.0F, 4e-7F) << x;
    EXPECT_EQ(gelu(-x * 1e3F), x < 1 ? -x * 500.0F : 0.0F) << x;
  }
}

TEST(FastGelu, SpecialValues) {
  EXPECT_TRUE(std::isnan(gelu(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_EQ(gelu(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(gelu(-kInfinity)));  // -infinity times 0, as the formula has it
  EXPECT_EQ(gelu(0.0F), 0.0F);
}

TEST(FastGelu, TouchesNothingBehindTheEnd) {
  for (std::int64_t count = 0; count < 140; ++count) {
    std::vector<float> values(static_cast<std::size_t>(count) + 3, 2.0F);
    highway::fast_gelu()(values.data(), count);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_FLOAT_EQ(values[i], static_cast<std::int64_t>(i) < count ? gelu(2) : 2.0F) << count;
    }
  }
}

void check(OpCall call, bool packed) {
  if (const auto choice = onednn::choose_constant(call, 1); choice && packed) {
    call.inputs[1].layout = choice->layout;
  }
  KernelOffer offer = offer_matmul_gelu(call, {.threads = 1});
  if (!offer.kernel && packed) {
    EXPECT_NE(offer.refusal.find("packed"), std::string::npos) << offer.refusal;
    return;
  }
  ASSERT_TRUE(offer.kernel) << to_string(call) << ": " << offer.refusal;
  EXPECT_EQ(offer.kernel->threads(), 1);
  Fixture fixture(call);
  fixture.run(*offer.kernel);
  fixture.expect_reference(1e-4F, 1e-5F);
}

TEST(MatmulGelu, AgreesWithTheReference) {
  for (const bool packed : {false, true}) {
    for (const Shape& a : {Shape{1, 5}, Shape{7, 33}, Shape{2, 3, 11, 16}, Shape{300, 8}}) {
      for (const std::int64_t n : {1, 17, 96, 1536}) {
        const std::int64_t k = a[a.rank() - 1];
        check(make_call("matmul", {}, {operand(a), operand({k, n})}, {}, kGelu), packed);
        check(
            make_call("matmul", {}, {operand(a), operand({k, n}), operand({n})}, {}, kBiasAndGelu),
            packed);
        check(make_call("matmul", {{"transpose_b", std::int64_t{1}}},
                        {operand(a), operand({n, k}), operand({1, n})}, {}, kBiasAndGelu),
              packed);
      }
    }
  }
}

TEST(MatmulGelu, TakesUnevenChunks) {
  // 2048 columns: 64 rows a chunk at most, so 130 are cut in three, the last shorter.
  const OpCall call = make_call("matmul", {}, {operand({130, 3}), operand({3, 2048})}, {}, kGelu);
  check(call, false);
}

TEST(MatmulGelu, PassesNotANumberOn) {
  const OpCall call = make_call("matmul", {}, {operand({2, 3}), operand({3, 17})}, {}, kGelu);
  KernelOffer offer = offer_matmul_gelu(call, {.threads = 1});
  ASSERT_TRUE(offer.kernel) << offer.refusal;
  Fixture fixture(call);
  fixture.set_input(0, {1, std::numeric_limits<float>::quiet_NaN(), 2, 3, 4, 5});
  fixture.run(*offer.kernel);
  fixture.expect_reference(1e-4F, 1e-5F);
  EXPECT_TRUE(std::isnan(fixture.output()[16]));
}

TEST(MatmulGelu, RefusesWhatItDoesntKnow) {
  const auto refusal = [](const OpCall& call, int threads = 1) {
    const KernelOffer offer = offer_matmul_gelu(call, {.threads = threads});
    EXPECT_FALSE(offer.kernel) << to_string(call);
    EXPECT_FALSE(offer.refusal.empty());
    return offer.refusal;
  };
  const OperandType a = operand({4, 5});
  const OperandType b = operand({5, 6});
  refusal(make_call("matmul", {}, {a, b}));
  refusal(make_call("matmul", {}, {a, b}, {}, kGelu), 2);
  refusal(make_call("matmul", {}, {operand({0, 5}), b}, {}, kGelu));
  refusal(make_call("matmul", {}, {operand({4, 0}), operand({0, 6})}, {}, kGelu));
  refusal(make_call("matmul", {}, {operand({5}), b}, {}, kGelu));
  refusal(make_call("matmul", {}, {operand({2, 4, 5}), operand({2, 5, 6})}, {}, kGelu));
  refusal(make_call("matmul", {{"transpose_a", std::int64_t{1}}}, {operand({5, 4}), b}, {}, kGelu));
  refusal(make_call("matmul", {},
                    {operand({4, 5}, {}, DType::bf16), operand({5, 6}, {}, DType::bf16)}, {},
                    kGelu));
  for (const Shape& other : {Shape{4, 6}, Shape{1}, Shape{4, 1}, Shape{}}) {
    refusal(make_call("matmul", {}, {a, b, operand(other)}, {}, kBiasAndGelu));
  }
  const Expression scaled{{{ScalarFn::mul, {Step::kResult, kBias}}, {ScalarFn::gelu, {0, 0}}}};
  refusal(make_call("matmul", {}, {a, b, operand({6})}, {}, scaled));
  const Expression of_the_bias{
      {{ScalarFn::add, {Step::kResult, kBias}}, {ScalarFn::gelu, {Step::kResult, 0}}}};
  refusal(make_call("matmul", {}, {a, b, operand({6})}, {}, of_the_bias));
}

}  // namespace
}  // namespace tilemesh::cpu
