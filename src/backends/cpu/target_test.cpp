#include "backends/cpu/target.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "backends/cpu/kernels/dnnl/kernels.hpp"
#include "backends/cpu/kernels/kernel_testing.hpp"
#include "backends/cpu/prices.hpp"

namespace tilemesh::cpu {
namespace {

using namespace testing;
using Step = ExpressionStep;
using Integers = std::vector<std::int64_t>;

TargetInfo this_machine() {
  TargetInfo info;
  const Isa isa = isa_of_this_machine();
  if (isa.vector_floats >= 8) {
    info.features.push_back("avx2");
  }
  if (isa.vector_floats >= 16) {
    info.features.insert(info.features.end(), {"avx512f", "avx512bw", "avx512vl"});
  }
  if (isa.bf16) {
    info.features.push_back("avx512bf16");
  }
  return info;
}

OpCall conv(const Shape& image, std::int64_t outputs, std::int64_t kernel, std::int64_t groups = 1,
            Expression epilogue = {}, std::vector<OperandType> operands = {}) {
  std::vector<OperandType> inputs{
      operand(image), operand({outputs, image[1] / groups, kernel, kernel}), operand({outputs})};
  inputs.insert(inputs.end(), operands.begin(), operands.end());
  return make_call("conv", {{"pads", Integers(4, kernel / 2)}, {"group", groups}}, inputs, {},
                   std::move(epilogue));
}

OpCall laid_out(OpCall call, const Candidate& candidate) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    call.inputs[i].layout = candidate.inputs[i];
  }
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    call.outputs[i].layout = candidate.outputs[i];
  }
  return call;
}

bool lists_reorder(const Kernel& kernel) {
  return kernel.name().find("reorder") != std::string_view::npos;
}

TEST(CpuTarget, EveryCandidateHasAKernel) {
  const auto target = make_target(this_machine());
  const OpCall calls[] = {conv({1, 3, 20, 20}, 16, 3),
                          conv({1, 32, 10, 10}, 17, 1),
                          conv({1, 24, 9, 9}, 24, 3, 24),
                          conv({1, 24, 9, 9}, 48, 3, 2),
                          conv({1, 1, 9, 40}, 20, 3),
                          conv({1, 32, 9, 9}, 1, 3),
                          conv({1, 48, 1, 1}, 16, 1),
                          conv({1, 16, 1, 1}, 20, 1),
                          conv({1, 10, 1, 1}, 16, 1),
                          make_call("matmul", {}, {operand({4, 7, 96}), operand({96, 100})}),
                          make_call("matmul", {}, {operand({4, 7, 5}), operand({4, 5, 3})}),
                          make_call("matmul", {},
                                    {operand({2, 3, 16, 8}, Layout({0, 2, 1, 3}, {})),
                                     operand({2, 3, 8, 16}, Layout({0, 3, 1, 2}, {}))})};
  for (const OpCall& call : calls) {
    const std::vector<Candidate> candidates = target->candidates(call, {false, true, true});
    ASSERT_FALSE(candidates.empty());
    const Candidate& last = candidates.back();
    EXPECT_TRUE(std::ranges::all_of(last.inputs, &Layout::is_rows));
    EXPECT_TRUE(std::ranges::all_of(last.outputs, &Layout::is_rows));
    for (const Candidate& candidate : candidates) {
      ASSERT_EQ(candidate.inputs.size(), call.inputs.size());
      ASSERT_EQ(candidate.outputs.size(), call.outputs.size());
      EXPECT_GT(candidate.seconds, 0);
      const auto kernel = make_kernel(laid_out(call, candidate), {});
      if (&candidate != &last) {
        EXPECT_FALSE(lists_reorder(*kernel)) << to_string(call) << ": " << kernel->name();
      }
    }
  }
}

TEST(CpuTarget, ConvolutionsLikeBlocks) {
  const auto target = make_target(this_machine());
  const Layout blocked = Layout::blocked(1, onednn::library_isa().block());
  const OpCall call = conv({1, 64, 28, 28}, 64, 3);
  const Candidate best = target->candidates(call, {false, true, true}).front();
  EXPECT_EQ(best.inputs[0], blocked) << best.implementation;
  EXPECT_EQ(best.outputs[0], blocked);
  EXPECT_FALSE(best.inputs[1].is_rows());
  const Candidate first = target->candidates(conv({1, 3, 64, 64}, 32, 3), {}).front();
  EXPECT_TRUE(first.inputs[0].is_rows());
  EXPECT_EQ(first.outputs[0], blocked);
}

TEST(CpuTarget, ConstantMatricesArePacked) {
  const auto target = make_target(this_machine());
  const OpCall call = make_call("matmul", {}, {operand({8, 256}), operand({256, 512})});
  // Kernels of narrower registers read plain ones as well.
  EXPECT_EQ(target->candidates(call, {false, true}).front().inputs[1].is_rows(),
            isa_of_this_machine().vector_floats < 16);
  for (const Candidate& candidate : target->candidates(call, {false, false})) {
    EXPECT_TRUE(candidate.inputs[1].is_rows());
  }
}

TEST(CpuTarget, LargeProductsReadRowsWhereThatIsFaster) {
  if (isa_of_this_machine().vector_floats < 16) {
    GTEST_SKIP() << "measured with avx512 alone";
  }
  TargetInfo info = this_machine();
  for (const bool transpose : {false, true}) {
    const OpCall call = make_call("matmul", {{"transpose_b", std::int64_t{transpose}}},
                                  {operand({128, 384}), operand({384, 384})});
    info.processor = "AMD";
    Candidate best = make_target(info)->candidates(call, {false, true}).front();
    EXPECT_EQ(best.implementation, "onednn:gemm");
    EXPECT_EQ(best.inputs[1], transpose ? Layout({1, 0}, {}) : Layout::rows());
    EXPECT_TRUE(make_kernel(laid_out(call, best), {})->name().starts_with("onednn:gemm"));
    info.processor = "another";
    best = make_target(info)->candidates(call, {false, true}).front();
    EXPECT_FALSE(best.inputs[1].blocks().empty()) << best.implementation;
  }
}

TEST(CpuTarget, ProductsOfHeadsNeedNoTransposes) {
  if (isa_of_this_machine().vector_floats < 16) {
    GTEST_SKIP() << "oneDNN's brgemm wants avx512";
  }
  const auto target = make_target(this_machine());
  const Layout heads_inside({0, 2, 1, 3}, {});
  const Layout turned({0, 3, 1, 2}, {});
  const OpCall call = make_call(
      "matmul", {}, {operand({2, 12, 64, 32}, heads_inside), operand({2, 12, 32, 64}, turned)});
  const std::vector<Candidate> candidates = target->candidates(call, {false, false});
  for (const Layout& y : {Layout::rows(), heads_inside}) {
    const auto found = std::ranges::find_if(candidates, [&](const Candidate& candidate) {
      return candidate.inputs[0] == heads_inside && candidate.inputs[1] == turned &&
             candidate.outputs[0] == y;
    });
    ASSERT_NE(found, candidates.end());
    const double moved = target->convert_seconds(call.inputs[0], Layout::rows()) +
                         target->convert_seconds(call.inputs[1], Layout::rows());
    EXPECT_LT(found->seconds, candidates.front().seconds + moved);
  }
}

TEST(CpuTarget, FusesWhatKernelsTake) {
  TILEMESH_NEEDS_AVX2();
  const auto target = make_target(this_machine());
  const OpCall call = conv({2, 16, 8, 8}, 32, 3);
  const Step relu{ScalarFn::relu, {Step::kResult, Step::kResult}};
  EXPECT_TRUE(target->can_fuse(call, relu, nullptr));
  EXPECT_FALSE(target->can_fuse(call, {ScalarFn::floor, {Step::kResult, 0}}, nullptr));
  const Step add{ScalarFn::add, {Step::kResult, Step::kOperand + 3}};
  const OperandType residual = operand({2, 32, 8, 8});
  const OperandType per_channel = operand({1, 32, 1, 1});
  const OperandType per_image = operand({2, 32, 1, 1});
  EXPECT_TRUE(target->can_fuse(call, add, &residual));
  EXPECT_TRUE(target->can_fuse(call, add, &per_channel));
  EXPECT_FALSE(target->can_fuse(call, add, &per_image));
  const OpCall integers =
      make_call("matmul", {}, {operand({2, 3}, {}, DType::i32), operand({3, 2}, {}, DType::i32)});
  EXPECT_FALSE(target->can_fuse(integers, relu, nullptr));
  const OpCall softmax = make_call("softmax", {{"axis", std::int64_t{1}}}, {operand({2, 3})});
  EXPECT_FALSE(target->can_fuse(softmax, relu, nullptr));
}

TEST(CpuTarget, FusedCandidatesHaveKernels) {
  TILEMESH_NEEDS_AVX2();
  const auto target = make_target(this_machine());
  const Expression epilogue{{{ScalarFn::relu, {Step::kResult, 0}},
                             {ScalarFn::add, {0, Step::kOperand + 3}},
                             {ScalarFn::hard_swish, {1, 0}}}};
  const OpCall call = conv({1, 16, 8, 8}, 32, 3, 1, epilogue, {operand({1, 32, 8, 8})});
  for (const Candidate& candidate : target->candidates(call, {false, true, true, false})) {
    const OpCall chosen = laid_out(call, candidate);
    EXPECT_EQ(chosen.inputs[3].layout, chosen.outputs[0].layout);
    Fixture fixture(chosen);
    fixture.run(*make_kernel(chosen, {}));
    fixture.expect_reference(1e-4F, 2e-5F);
  }
}

TEST(CpuTarget, ConcatKeepsWholeBlocks) {
  const auto target = make_target(this_machine());
  const Layout blocked = Layout::blocked(1, 8);
  const auto best = [&](std::int64_t channels, std::int64_t axis) {
    const OpCall call =
        make_call("concat", {{"axis", axis}},
                  {operand({1, channels, 4, 4}, blocked), operand({1, channels, 4, 4}, blocked)});
    return target->candidates(call, {false, false}).front();
  };
  EXPECT_EQ(best(24, 1).outputs[0], blocked);
  EXPECT_TRUE(best(12, 1).outputs[0].is_rows());
  EXPECT_EQ(best(12, 2).outputs[0], blocked);
}

TEST(CpuTarget, ZeroSizesAreInRows) {
  const auto target = make_target(this_machine());
  const OpCall call = make_call("matmul", {}, {operand({0, 3}), operand({3, 2})});
  EXPECT_EQ(target->candidates(call, {false, true}).size(), 1U);
}

TEST(CpuTarget, AnswersForOtherMachines) {
  TargetInfo info;
  info.features = isa_of_this_machine().vector_floats == 8
                      ? std::vector<std::string>{"avx512f", "avx512bw", "avx512vl"}
                      : std::vector<std::string>{"avx2"};
  const int block = isa_of(info).vector_floats;
  ASSERT_NE(isa_of(info), isa_of_this_machine());
  const auto target = make_target(info);
  const Candidate best = target->candidates(conv({1, 64, 28, 28}, 64, 3), {}).front();
  EXPECT_EQ(best.outputs[0], Layout::blocked(1, block));
  EXPECT_EQ(best.inputs[1], Layout({}, {{1, block}, {0, block}}));
  EXPECT_TRUE(target->can_fuse(conv({1, 64, 28, 28}, 64, 3),
                               {ScalarFn::relu, {Step::kResult, Step::kResult}}, nullptr));
}

TEST(CpuTarget, PricesConversions) {
  const auto target = make_target(this_machine());
  const OperandType image = operand({1, 16, 32, 32});
  EXPECT_EQ(target->convert_seconds(image, Layout::rows()), 0);
  EXPECT_GT(target->convert_seconds(image, Layout::blocked(1, 16)), 1e-6);
}

}  // namespace
}  // namespace tilemesh::cpu
