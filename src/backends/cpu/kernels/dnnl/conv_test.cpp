#include "backends/cpu/kernels/dnnl/conv.hpp"

#include <limits>

#include "backends/cpu/kernels/dnnl/kernels.hpp"
#include "backends/cpu/kernels/kernel_testing.hpp"

namespace tilemesh::cpu {
namespace {

using namespace testing;

/// What kernels here like best.
const Layout kBlocked = Layout::blocked(1, onednn::library_isa().block());
using Step = ExpressionStep;
using Integers = std::vector<std::int64_t>;

constexpr std::int16_t kFirst = Step::kOperand + 3;  // the epilogue's first operand

void check(const OpCall& call, int threads = 1) {
  KernelOffer offer = offer_of(call, "onednn", threads);
  ASSERT_TRUE(offer.kernel) << to_string(call) << ": " << offer.refusal;
  Fixture fixture(call);
  fixture.run(*offer.kernel);
  fixture.expect_reference(1e-4F, 2e-5F);
}

struct Case {
  Shape image;
  std::int64_t outputs = 1;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
};

OpCall conv_of(const Case& c, const Layout& source, const Layout& target, bool bias = true,
               Expression epilogue = {}, std::vector<OperandType> operands = {}) {
  const auto spatial = static_cast<std::size_t>(c.image.rank()) - 2;
  Dims weights{c.outputs, c.image[1] / c.groups};
  for (std::size_t i = 0; i < spatial; ++i) {
    weights.push_back(c.kernel);
  }
  const Attributes attributes{{"strides", Integers(spatial, c.stride)},
                              {"dilations", Integers(spatial, c.dilation)},
                              {"pads", Integers(2 * spatial, c.kernel / 2)},
                              {"group", c.groups}};
  std::vector<OperandType> inputs{operand(c.image, source), operand(Shape(weights)),
                                  bias ? operand({c.outputs}) : absent()};
  inputs.insert(inputs.end(), operands.begin(), operands.end());
  return make_call("conv", attributes, inputs, target, std::move(epilogue));
}

const Case kCases[] = {
    {{1, 3, 17, 19}, 16, 3, 2, 1, 1},   {{2, 17, 11, 13}, 31, 3, 1, 1, 1},
    {{1, 16, 9, 7}, 32, 1, 1, 1, 1},    {{1, 31, 12, 10}, 31, 3, 1, 1, 31},
    {{1, 24, 9, 9}, 48, 3, 1, 1, 2},    {{1, 32, 8, 8}, 64, 3, 1, 1, 2},
    {{1, 16, 13, 11}, 16, 5, 2, 2, 16}, {{2, 5, 10, 6}, 7, 3, 1, 2, 1},
    {{1, 8, 1, 1}, 24, 1, 1, 1, 1},     {{1, 6, 7, 7}, 12, 3, 1, 1, 6},
};

TEST(OnednnConv, PlainWeightsInEveryLayout) {
  for (const Case& c : kCases) {
    for (const Layout& layout : {Layout::rows(), Layout::channels_last(4), kBlocked}) {
      check(conv_of(c, layout, layout));
      check(conv_of(c, layout, layout, false));
    }
  }
}

TEST(OnednnConv, ChosenWeights) {
  int chosen = 0;
  for (const Case& c : kCases) {
    for (const Layout& layout : {Layout::rows(), Layout::channels_last(4), kBlocked}) {
      OpCall call = conv_of(c, layout, layout);
      if (const auto choice = onednn::choose_constant(call, 1)) {
        ++chosen;
        call.inputs[1].layout = choice->layout;
        check(call);
      }
    }
  }
  EXPECT_GT(chosen, 15);
}

TEST(OnednnConv, FirstConvReadsRowsAndWritesBlocks) {
  OpCall call = conv_of(kCases[0], Layout::rows(), kBlocked);
  const auto choice = onednn::choose_constant(call, 1);
  ASSERT_TRUE(choice.has_value());
  call.inputs[1].layout = choice->layout;
  check(call);
}

TEST(OnednnConv, OtherRanks) {
  for (const Layout& layout : {Layout::rows(), Layout::channels_last(3), kBlocked}) {
    check(conv_of({{2, 9, 50}, 20, 3, 2, 1, 1}, layout, layout));
    check(conv_of({{1, 16, 31}, 16, 3, 1, 1, 16}, layout, layout));
  }
  for (const Layout& layout : {Layout::rows(), Layout::channels_last(5), kBlocked}) {
    check(conv_of({{1, 5, 6, 7, 8}, 9, 3, 1, 1, 1}, layout, layout));
  }
}

TEST(OnednnConv, ActivationsKeepThePaddingZero) {
  TILEMESH_NEEDS_AVX2();
  struct Activation {
    ScalarFn fn;
    float alpha = 0;
    float beta = 0;
  };
  const Activation activations[] = {{ScalarFn::relu},       {ScalarFn::leaky_relu, 0.1F},
                                    {ScalarFn::clip, 0, 6}, {ScalarFn::clip, 0.25F, 1},
                                    {ScalarFn::hard_swish}, {ScalarFn::hard_sigmoid, 0.2F, 0.5F},
                                    {ScalarFn::sigmoid},    {ScalarFn::tanh},
                                    {ScalarFn::swish, 1},   {ScalarFn::linear, 2, 3},
                                    {ScalarFn::gelu},       {ScalarFn::gelu_tanh},
                                    {ScalarFn::elu, 1},     {ScalarFn::exp},
                                    {ScalarFn::abs},        {ScalarFn::neg}};
  for (const Case& c : {kCases[1], kCases[3], Case{{1, 17, 6, 6}, 19, 1, 1, 1, 1}}) {
    for (const Activation& a : activations) {
      const Expression epilogue{{{a.fn, {Step::kResult, Step::kResult}, a.alpha, a.beta}}};
      OpCall call = conv_of(c, kBlocked, kBlocked, true, epilogue);
      const auto choice = onednn::choose_constant(call, 1);
      ASSERT_TRUE(choice.has_value()) << to_string(call);
      call.inputs[1].layout = choice->layout;
      check(call);
    }
  }
}

TEST(OnednnConv, BinaryEpilogues) {
  TILEMESH_NEEDS_AVX2();
  for (const ScalarFn fn :
       {ScalarFn::add, ScalarFn::sub, ScalarFn::mul, ScalarFn::div, ScalarFn::min, ScalarFn::max}) {
    for (const Case& c : {kCases[1], kCases[3], kCases[2]}) {
      for (const Layout& layout : {kBlocked, Layout::channels_last(4)}) {
        const OpCall plain = conv_of(c, layout, layout);
        const Shape output = plain.outputs[0].shape;
        const Expression epilogue{{{ScalarFn::relu, {Step::kResult, 0}},
                                   {fn, {0, kFirst}},
                                   {ScalarFn::linear, {1, 0}, 0.5F, 1}}};
        for (const OperandType& extra :
             {operand(output, layout), operand({1, output[1], 1, 1}), operand({output[1], 1, 1}),
              operand({1, output[1], 1, 1}, layout), operand({1})}) {
          OpCall call = conv_of(c, layout, layout, true, epilogue, {extra});
          if (const auto choice = onednn::choose_constant(call, 1)) {
            call.inputs[1].layout = choice->layout;
          }
          KernelOffer offer = offer_of(call, "onednn");
          ASSERT_TRUE(offer.kernel) << to_string(call) << ": " << offer.refusal;
          Fixture fixture(call);
          if (fn == ScalarFn::div) {
            fixture.set_input(
                3, std::vector<float>(static_cast<std::size_t>(extra.shape.element_count()), 1.5F));
          }
          fixture.run(*offer.kernel);
          fixture.expect_reference(1e-4F, 2e-5F);
        }
      }
    }
  }
}

TEST(OnednnConv, GatesBecomeActivations) {
  const Expression swish{
      {{ScalarFn::sigmoid, {Step::kResult, 0}}, {ScalarFn::mul, {Step::kResult, 0}}}};
  check(conv_of(kCases[1], kBlocked, kBlocked, true, swish));
  const Expression hard{{{ScalarFn::hard_sigmoid, {Step::kResult, 0}, 1.0F / 6, 0.5F},
                         {ScalarFn::mul, {0, Step::kResult}}}};
  check(conv_of(kCases[1], kBlocked, kBlocked, true, hard));
}

TEST(OnednnConv, AddWithoutBiasIsTheBias) {
  const Expression epilogue{{{ScalarFn::add, {Step::kResult, kFirst}}, {ScalarFn::relu, {0, 0}}}};
  check(conv_of(kCases[1], kBlocked, kBlocked, false, epilogue, {operand({31, 1, 1})}));
}

TEST(OnednnConv, RefusesWithTheReason) {
  TILEMESH_NEEDS_AVX2();
  const Layout rows;
  const Expression floor{{{ScalarFn::floor, {Step::kResult, 0}}}};
  KernelOffer offer = offer_of(conv_of(kCases[0], rows, rows, true, floor), "onednn");
  EXPECT_FALSE(offer.kernel);
  EXPECT_NE(offer.refusal.find("floor"), std::string::npos) << offer.refusal;
  const Expression add{{{ScalarFn::relu, {Step::kResult, 0}}, {ScalarFn::add, {0, kFirst}}}};
  offer = offer_of(conv_of(kCases[1], rows, rows, true, add, {operand({2, 31, 1, 1})}), "onednn");
  EXPECT_FALSE(offer.kernel);
  EXPECT_NE(offer.refusal.find("[2,31,1,1]"), std::string::npos) << offer.refusal;
}

TEST(OnednnConv, PassesNotANumberOn) {
  const OpCall call = conv_of({{1, 3, 5, 5}, 17, 3, 1, 1, 1}, kBlocked, kBlocked);
  KernelOffer offer = offer_of(call, "onednn");
  ASSERT_TRUE(offer.kernel) << offer.refusal;
  Fixture fixture(call);
  std::vector<float> values(75, 0.5F);
  values[12] = std::numeric_limits<float>::quiet_NaN();
  fixture.set_input(0, values);
  fixture.run(*offer.kernel);
  fixture.expect_reference(1e-4F, 1e-5F);
}

TEST(OnednnConv, HalfPrecision) {
  OpCall call = conv_of({{1, 32, 7, 9}, 33, 3, 1, 1, 1}, kBlocked, kBlocked);
  for (OperandType& input : call.inputs) {
    input.dtype = DType::bf16;
  }
  call.outputs[0].dtype = DType::bf16;
  const auto choice = onednn::choose_constant(call, 1);
  EXPECT_EQ(choice.has_value(), onednn::library_isa().bf16);
  if (choice) {
    call.inputs[1].layout = choice->layout;
    KernelOffer offer = offer_of(call, "onednn");
    ASSERT_TRUE(offer.kernel) << offer.refusal;
    Fixture fixture(call);
    fixture.run(*offer.kernel);
    fixture.expect_reference(1.0F / 64, 1.0F / 32);
  }
}

TEST(OnednnConv, OneChannelAndOnePixel) {
  const Layout rows;
  const Layout last = Layout::channels_last(4);
  check(conv_of({{2, 1, 6, 9}, 20, 3, 1, 1, 1}, rows, last));
  check(conv_of({{2, 16, 6, 9}, 1, 3, 1, 1, 1}, last, rows));
  check(conv_of({{1, 16, 1, 1}, 24, 1, 1, 1, 1}, rows, rows));
  check(conv_of({{1, 16, 1, 1}, 24, 1, 1, 1, 1}, kBlocked, rows));
  check(conv_of({{2, 16, 3, 3}, 24, 3, 3, 1, 1}, kBlocked, kBlocked));
}

TEST(OnednnConv, SeveralThreads) {
  check(conv_of({{1, 64, 56, 56}, 64, 3, 1, 1, 1}, kBlocked, kBlocked), 2);
  check(conv_of({{1, 16, 5, 5}, 16, 1, 1, 1, 1}, kBlocked, kBlocked), 2);
}

TEST(OnednnConvTranspose, AgainstTheReference) {
  for (const std::int64_t groups : {1, 2}) {
    for (const std::int64_t stride : {1, 2}) {
      for (const Layout& layout : {Layout::rows(), Layout::channels_last(4), kBlocked}) {
        for (const std::int64_t channels : {16, 32, 6}) {
          const Attributes attributes{{"strides", Integers{stride, stride}},
                                      {"pads", Integers{1, 1, 1, 1}},
                                      {"group", groups}};
          OpCall call = make_call("conv_transpose", attributes,
                                  {operand({1, channels, 5, 7}, layout),
                                   operand({channels, 32 / groups, 3, 3}), operand({32})},
                                  layout);
          if (const auto choice = onednn::choose_constant(call, 1)) {
            call.inputs[1].layout = choice->layout;
          }
          check(call);
        }
      }
    }
  }
}

TEST(OnednnConvTranspose, WindowsThatDoNotOverlap) {
  const Expression sigmoid{
      {{ScalarFn::sigmoid, {Step::kResult, 0}}, {ScalarFn::linear, {0, 0}, 2, 1}}};
  for (const std::int64_t outputs : {1, 24}) {
    for (const Layout& layout : {Layout::rows(), Layout::channels_last(4), kBlocked}) {
      for (const bool bias : {false, true}) {
        OpCall call = make_call("conv_transpose", {{"strides", Integers{2, 3}}},
                                {operand({2, 7, 5, 3}, layout), operand({7, outputs, 2, 3}),
                                 bias ? operand({outputs}) : absent()},
                                layout, sigmoid);
        if (const auto choice = onednn::choose_constant(call, 1)) {
          call.inputs[1].layout = choice->layout;
        }
        if (bias || layout == Layout::channels_last(4)) {
          check(call);
        }
      }
    }
  }
  check(make_call("conv_transpose", {{"strides", Integers{3}}},
                  {operand({2, 5, 7}), operand({5, 4, 3}), operand({4})}));
}

TEST(OnednnConvTranspose, Epilogues) {
  TILEMESH_NEEDS_AVX2();
  for (const Layout& layout : {Layout::channels_last(4), kBlocked}) {
    const OpCall plain = make_call("conv_transpose", {{"strides", Integers{2, 2}}},
                                   {operand({1, 16, 5, 7}, layout), operand({16, 17, 3, 3})});
    const Shape output = plain.outputs[0].shape;
    const Expression epilogue{{{ScalarFn::add, {Step::kResult, kFirst}},
                               {ScalarFn::hard_swish, {0, 0}},
                               {ScalarFn::add, {1, static_cast<std::int16_t>(kFirst + 1)}},
                               {ScalarFn::linear, {2, 0}, 1, 3}}};
    OpCall call = make_call("conv_transpose", {{"strides", Integers{2, 2}}},
                            {operand({1, 16, 5, 7}, layout), operand({16, 17, 3, 3}), absent(),
                             operand({17, 1, 1}), operand(output, layout)},
                            layout, epilogue);
    const auto choice = onednn::choose_constant(call, 1);
    ASSERT_TRUE(choice.has_value());
    call.inputs[1].layout = choice->layout;
    check(call);
  }
}

}  // namespace
}  // namespace tilemesh::cpu
