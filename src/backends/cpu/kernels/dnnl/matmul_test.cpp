#include "backends/cpu/kernels/dnnl/matmul.hpp"

#include <array>
#include <limits>
#include <thread>
#include <vector>

#include "backends/cpu/kernels/dnnl/kernels.hpp"
#include "backends/cpu/kernels/kernel_testing.hpp"

namespace tilemesh::cpu {
namespace {

using namespace testing;
using Step = ExpressionStep;

constexpr std::int16_t kFirst = Step::kOperand + 2;  // the epilogue's first operand

void check(const OpCall& call, int threads = 1) {
  KernelOffer offer = offer_of(call, "onednn", threads);
  ASSERT_TRUE(offer.kernel) << to_string(call) << ": " << offer.refusal;
  Fixture fixture(call);
  fixture.run(*offer.kernel);
  fixture.expect_reference(1e-4F, 1e-5F);
}

Attributes transposes(bool a, bool b) {
  return {{"transpose_a", std::int64_t{a}}, {"transpose_b", std::int64_t{b}}};
}

TEST(OnednnMatmul, Matrices) {
  for (const std::int64_t m : {1, 7, 64}) {
    for (const std::int64_t n : {1, 17, 48}) {
      for (const std::int64_t k : {1, 5, 129}) {
        for (int flags = 0; flags < 4; ++flags) {
          const bool ta = (flags & 1) != 0;
          const bool tb = (flags & 2) != 0;
          check(make_call(
              "matmul", transposes(ta, tb),
              {operand(ta ? Shape{k, m} : Shape{m, k}), operand(tb ? Shape{n, k} : Shape{k, n})}));
        }
      }
    }
  }
}

TEST(OnednnMatmul, BatchesAndVectors) {
  check(make_call("matmul", {}, {operand({5}), operand({5})}));
  check(make_call("matmul", {}, {operand({5}), operand({5, 3})}));
  check(make_call("matmul", {}, {operand({4, 3, 5}), operand({5})}));
  check(make_call("matmul", {}, {operand({2, 3, 4, 5}), operand({5, 7})}));
  check(make_call("matmul", {}, {operand({2, 3, 4, 5}), operand({2, 3, 5, 7})}));
  check(
      make_call("matmul", transposes(false, true), {operand({2, 3, 4, 5}), operand({2, 3, 7, 5})}));
  check(
      make_call("matmul", transposes(true, false), {operand({2, 3, 5, 4}), operand({2, 3, 5, 7})}));
  check(make_call("matmul", {}, {operand({2, 1, 4, 5}), operand({1, 3, 5, 7})}));
  check(make_call("matmul", {}, {operand({4, 5}), operand({6, 5, 7})}));
}

TEST(OnednnMatmul, BlockedWeights) {
  for (const bool transpose : {false, true}) {
    for (const std::int64_t m : {1, 33}) {
      for (const std::int64_t n : {31, 360}) {
        OpCall call =
            make_call("matmul", transposes(false, transpose),
                      {operand({2, m, 120}), operand(transpose ? Shape{n, 120} : Shape{120, n})});
        const auto choice = onednn::choose_constant(call, 1);
        ASSERT_TRUE(choice.has_value());
        EXPECT_EQ(choice->input, 1U);
        EXPECT_FALSE(choice->layout.is_rows() && onednn::library_isa().vector_floats == 16);
        call.inputs[1].layout = choice->layout;
        check(call);
      }
    }
  }
}

TEST(OnednnMatmul, DimsInAnotherOrder) {
  const Layout rows;
  const Layout heads_inside({0, 2, 1, 3}, {});
  const Layout turned({0, 3, 1, 2}, {});  // a transposed operand whose heads are inside
  const Expression scale{{{ScalarFn::linear, {Step::kResult, 0}, 0.125F, 0}}};
  for (const auto& [batch, heads, m, n, k] :
       std::vector<std::array<std::int64_t, 5>>{{1, 12, 16, 16, 32},
                                                {3, 5, 7, 17, 9},
                                                {2, 1, 33, 5, 1},
                                                {1, 2, 1, 19, 64},
                                                {2, 3, 16, 1, 8}}) {
    for (const Layout& a : {rows, heads_inside}) {
      for (const Layout& b : {rows, heads_inside, turned}) {
        for (const Layout& y : {rows, heads_inside}) {
          for (const bool transpose : {false, true}) {
            const Shape second = transpose ? Shape{batch, heads, n, k} : Shape{batch, heads, k, n};
            const OpCall call =
                make_call("matmul", transposes(false, transpose),
                          {operand({batch, heads, m, k}, a), operand(second, b)}, y, scale);
            if (offer_of(call, "onednn").kernel) {
              check(call);
            } else {
              EXPECT_NE(onednn::library_isa().vector_floats, 16) << to_string(call);
            }
          }
        }
      }
    }
  }
}

TEST(OnednnMatmul, RefusesOrdersThatItCantFollow) {
  const Layout heads_inside({0, 2, 1, 3}, {});
  const auto refusal = [](const OpCall& call) {
    const KernelOffer offer = offer_of(call, "onednn");
    EXPECT_FALSE(offer.kernel) << to_string(call);
    return offer.refusal;
  };
  // One matrix for all: the batch is part of the rows, which must follow each other.
  EXPECT_NE(refusal(make_call("matmul", {}, {operand({2, 3, 4, 5}, heads_inside), operand({5, 6})}))
                .find("rows"),
            std::string::npos);
  const Expression add{{{ScalarFn::add, {Step::kResult, kFirst}}}};
  EXPECT_NE(refusal(make_call("matmul", {},
                              {operand({2, 3, 4, 5}, heads_inside), operand({2, 3, 5, 6}),
                               operand({2, 3, 4, 6})},
                              {}, add))
                .find("epilogue"),
            std::string::npos);
  refusal(
      make_call("matmul", {}, {operand({3, 4, 5}, Layout({1, 0, 2}, {})), operand({2, 3, 5, 6})}));
}

TEST(OnednnMatmul, EpilogueWithBiasAndResidual) {
  TILEMESH_NEEDS_AVX2();
  const Expression epilogue{{{ScalarFn::add, {Step::kResult, kFirst}},
                             {ScalarFn::gelu, {0, 0}},
                             {ScalarFn::add, {static_cast<std::int16_t>(kFirst + 1), 1}}}};
  check(make_call("matmul", {},
                  {operand({2, 9, 31}), operand({31, 17}), operand({17}), operand({2, 9, 17})}, {},
                  epilogue));
}

TEST(OnednnMatmul, EpilogueOfBatches) {
  TILEMESH_NEEDS_AVX2();
  // The scale of attention and its mask: one for all heads.
  const Expression epilogue{
      {{ScalarFn::linear, {Step::kResult, 0}, 0.125F, 0}, {ScalarFn::add, {0, kFirst}}}};
  for (const Shape& mask : {Shape{1}, Shape{2, 3, 8, 9}}) {
    check(make_call("matmul", {}, {operand({2, 3, 8, 5}), operand({2, 3, 5, 9}), operand(mask)}, {},
                    epilogue));
  }
}

TEST(OnednnMatmul, RefusesWithTheReason) {
  const Expression sine{{{ScalarFn::sin, {Step::kResult, 0}}}};
  const KernelOffer offer =
      offer_of(make_call("matmul", {}, {operand({2, 3}), operand({3, 2})}, {}, sine), "onednn");
  EXPECT_FALSE(offer.kernel);
  EXPECT_NE(offer.refusal.find("sin"), std::string::npos) << offer.refusal;
  EXPECT_FALSE(
      offer_of(make_call("matmul", {}, {operand({0, 3}), operand({3, 2})}), "onednn").kernel);
  EXPECT_FALSE(
      offer_of(make_call("matmul", {},
                         {operand({2, 3}, {}, DType::i32), operand({3, 2}, {}, DType::i32)}),
               "onednn")
          .kernel);
}

TEST(OnednnMatmul, PassesNotANumberOn) {
  const OpCall call = make_call("matmul", {}, {operand({3, 5}), operand({5, 17})});
  KernelOffer offer = offer_of(call, "onednn");
  ASSERT_TRUE(offer.kernel) << offer.refusal;
  Fixture fixture(call);
  std::vector<float> values(15, 0.5F);
  values[7] = std::numeric_limits<float>::quiet_NaN();
  values[11] = std::numeric_limits<float>::infinity();
  fixture.set_input(0, values);
  fixture.run(*offer.kernel);
  fixture.expect_reference(1e-4F, 1e-5F);
}

TEST(OnednnMatmul, SeveralThreads) {
  check(make_call("matmul", {}, {operand({128, 256}), operand({256, 192})}), 2);
  check(make_call("matmul", {}, {operand({3, 4}), operand({4, 5})}), 2);
}

TEST(OnednnMatmul, WeightsAreNotPaddedMuch) {
  for (const std::int64_t columns : {96, 160, 80, 1000}) {
    const OpCall call = make_call("matmul", {}, {operand({9, 64}), operand({64, columns})});
    const auto choice = onednn::choose_constant(call, 1);
    ASSERT_TRUE(choice.has_value());
    OperandType weights = call.inputs[1];
    const std::int64_t plain = weights.bytes();
    weights.layout = choice->layout;
    EXPECT_LE(weights.bytes(), plain + plain / 8) << columns;
    OpCall packed = call;
    packed.inputs[1].layout = choice->layout;
    const KernelOffer offer = offer_of(packed, "onednn");
    ASSERT_TRUE(offer.kernel) << offer.refusal;
    EXPECT_EQ(offer.kernel->name().find("reorder"), std::string_view::npos);
    Fixture fixture(packed);
    fixture.run(*offer.kernel);
    fixture.expect_reference(1e-4F, 1e-4F);
  }
}

TEST(OnednnMatmul, HalfPrecision) {
  const auto halves = [](DType dtype) {
    return make_call("matmul", {}, {operand({9, 64}, {}, dtype), operand({64, 33}, {}, dtype)});
  };
  EXPECT_FALSE(offer_of(halves(DType::f16), "onednn").kernel);
  OpCall call = halves(DType::bf16);
  const KernelOffer plain = offer_of(call, "onednn");
  if (!onednn::library_isa().bf16) {
    EXPECT_FALSE(plain.kernel);
    return;
  }
  ASSERT_TRUE(plain.kernel) << plain.refusal;
  const auto choice = onednn::choose_constant(call, 1);
  ASSERT_TRUE(choice.has_value());
  call.inputs[1].layout = choice->layout;
  KernelOffer packed = offer_of(call, "onednn");
  ASSERT_TRUE(packed.kernel) << packed.refusal;
  EXPECT_EQ(packed.kernel->name().find("reorder"), std::string_view::npos);
  Fixture fixture(call);
  fixture.run(*packed.kernel);
  fixture.expect_reference(1.0F / 128, 1.0F / 64);
}

TEST(OnednnMatmul, ManyThreadsMakeAndRunAtOnce) {
  std::vector<std::jthread> threads;
  std::array<bool, 4> fits{};
  for (std::size_t i = 0; i < fits.size(); ++i) {
    threads.emplace_back([&fits, i] {
      for (std::int64_t n = 1; n < 20; ++n) {
        const OpCall call = make_call("matmul", {}, {operand({n, 17}), operand({17, 3 * n})});
        const KernelOffer offer = offer_of(call, "onednn");
        Fixture fixture(call, static_cast<unsigned>(i));
        fixture.run(*offer.kernel);
        fixture.expect_reference(1e-4F, 1e-5F);
      }
      fits[i] = true;
    });
  }
  threads.clear();
  for (const bool fit : fits) {
    EXPECT_TRUE(fit);
  }
}

}  // namespace
}  // namespace tilemesh::cpu
