#include <limits>

#include "backends/cpu/kernels/dnnl/kernels.hpp"
#include "backends/cpu/kernels/kernel_testing.hpp"

namespace tilemesh::cpu {
namespace {

using namespace testing;

/// What kernels here like best.
const Layout kBlocked = Layout::blocked(1, onednn::library_isa().block());
using Integers = std::vector<std::int64_t>;

const Layout kLayouts[] = {Layout::rows(), Layout::channels_last(4), kBlocked};

void check(std::string_view op, const Attributes& attributes, const Shape& shape,
           const Layout& layout) {
  const OpCall call = make_call(op, attributes, {operand(shape, layout)}, layout);
  KernelOffer offer = offer_of(call, "onednn");
  ASSERT_TRUE(offer.kernel) << to_string(call) << ": " << offer.refusal;
  Fixture fixture(call);
  fixture.run(*offer.kernel);
  fixture.expect_reference(1e-5F, 1e-6F);
}

TEST(OnednnPool, MaxAndAverage) {
  for (const char* op : {"max_pool", "average_pool"}) {
    for (const Layout& layout : kLayouts) {
      for (const std::int64_t channels : {3, 17, 32}) {
        for (const std::int64_t ceil_mode : {0, 1}) {
          const Attributes attributes{{"kernel", Integers{3, 2}},
                                      {"strides", Integers{2, 2}},
                                      {"pads", Integers{1, 0, 1, 1}},
                                      {"ceil_mode", ceil_mode}};
          check(op, attributes, {2, channels, 11, 13}, layout);
        }
      }
    }
  }
}

TEST(OnednnPool, AverageWithPadsThatCount) {
  for (const Layout& layout : kLayouts) {
    check("average_pool",
          {{"kernel", Integers{3, 3}},
           {"pads", Integers{1, 1, 1, 1}},
           {"count_include_pad", std::int64_t{1}}},
          {1, 5, 7, 7}, layout);
  }
}

TEST(OnednnPool, WholeImage) {
  const Attributes attributes{{"kernel", Integers{7, 11}}};
  for (const Layout& layout : kLayouts) {
    check("max_pool", attributes, {2, 32, 7, 11}, layout);
  }
  // One pixel in rows is the same memory as one in blocks.
  const OpCall call =
      make_call("average_pool", attributes, {operand({1, 32, 7, 11}, kBlocked)}, Layout::rows());
  KernelOffer offer = offer_of(call, "onednn");
  ASSERT_TRUE(offer.kernel) << offer.refusal;
  Fixture fixture(call);
  fixture.run(*offer.kernel);
  fixture.expect_reference(1e-5F, 1e-6F);
}

TEST(OnednnPool, WindowsWithoutNumbers) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const Layout& layout : kLayouts) {
    for (const std::int64_t channels : {3, 16, 19}) {
      const OpCall call = make_call(
          "max_pool",
          {{"kernel", Integers{2, 2}}, {"strides", Integers{2, 2}}, {"pads", Integers{0, 1, 0, 0}}},
          {operand({2, channels, 6, 9}, layout)}, layout);
      KernelOffer offer = offer_of(call, "onednn");
      ASSERT_TRUE(offer.kernel) << offer.refusal;
      Fixture fixture(call);
      // Every place of a window gets its turn: numbers are rare.
      std::vector<float> values(static_cast<std::size_t>(2 * channels * 6 * 9));
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = i % 7 == 3 ? -static_cast<float>(i) : i % 3 == 0 ? kNan : -kInfinity;
      }
      std::fill(values.begin(), values.begin() + 54, kNan);
      std::fill(values.begin() + 54, values.begin() + 108, -kInfinity);
      fixture.set_input(0, values);
      fixture.run(*offer.kernel);
      fixture.expect_reference(0, 0);
      EXPECT_TRUE(std::isnan(fixture.output()[0]));
      EXPECT_EQ(fixture.output()[15], -kInfinity);  // 3 x 5 outputs a plane
    }
  }
}

TEST(OnednnPool, OneDim) {
  check("max_pool", {{"kernel", Integers{4}}, {"strides", Integers{3}}}, {2, 6, 29},
        Layout::rows());
}

TEST(OnednnPool, RefusesIndices) {
  OpCall call;
  call.def = &get_op("max_pool");
  call.attributes = {{"kernel", Integers{2, 2}}};
  call.inputs = {operand({1, 1, 4, 4})};
  call.outputs.resize(2);
  infer_outputs(call);
  EXPECT_FALSE(offer_of(call, "onednn").kernel);
}

}  // namespace
}  // namespace tilemesh::cpu
