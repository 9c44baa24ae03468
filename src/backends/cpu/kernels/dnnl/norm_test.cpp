#include <limits>

#include "backends/cpu/kernels/kernel_testing.hpp"

namespace tilemesh::cpu {
namespace {

using namespace testing;

const Layout kImageLayouts[] = {Layout::rows(), Layout::channels_last(4), Layout::blocked(1, 16)};

void check(const OpCall& call) {
  KernelOffer offer = offer_of(call, "onednn");
  ASSERT_TRUE(offer.kernel) << to_string(call) << ": " << offer.refusal;
  Fixture fixture(call);
  fixture.run(*offer.kernel);
  fixture.expect_reference(1e-4F, 1e-5F);
}

TEST(OnednnSoftmax, LastAxisAndRefusalOfOthers) {
  for (const char* op : {"softmax", "log_softmax"}) {
    for (const Shape& shape : {Shape{7}, Shape{3, 17}, Shape{2, 5, 31}, Shape{1, 1}}) {
      for (std::int64_t axis = 0; axis < shape.rank(); ++axis) {
        const OpCall call = make_call(op, {{"axis", axis}}, {operand(shape)});
        if (axis == shape.rank() - 1 || offer_of(call, "onednn").kernel) {
          check(call);
        }
      }
    }
  }
}

TEST(OnednnSoftmax, KeepsThePaddingZero) {
  const Layout blocked = Layout::blocked(1, 16);
  const OpCall call =
      make_call("softmax", {{"axis", std::int64_t{1}}}, {operand({2, 17, 3, 5}, blocked)}, blocked);
  const KernelOffer offer = offer_of(call, "onednn");
  if (offer.kernel) {
    check(call);
  } else {
    EXPECT_FALSE(offer.refusal.empty());
  }
}

TEST(OnednnSoftmax, LargeNumbers) {
  const OpCall call = make_call("softmax", {{"axis", std::int64_t{1}}}, {operand({1, 5})});
  Fixture fixture(call);
  fixture.set_input(0, {1e30F, -1e30F, 1e30F, 0, -std::numeric_limits<float>::infinity()});
  fixture.run(*offer_of(call, "onednn").kernel);
  fixture.expect_reference(1e-5F, 1e-6F);
}

TEST(OnednnLayerNorm, LastDims) {
  for (const std::int64_t axis : {1, 2}) {
    const Shape input{3, 7, 31};
    const Shape parameter = axis == 2 ? Shape{31} : Shape{7, 31};
    const Attributes attributes{{"axis", axis}, {"epsilon", 1e-5}};
    check(make_call("layer_normalization", attributes,
                    {operand(input), operand(parameter), operand(parameter)}));
    check(make_call("layer_normalization", attributes, {operand(input), operand(parameter)}));
  }
}

TEST(OnednnBatchNorm, Images) {
  for (const Layout& layout : kImageLayouts) {
    OpCall call = make_call("batch_normalization", {{"epsilon", 1e-3}},
                            {operand({2, 19, 5, 3}, layout), operand({19}), operand({19}),
                             operand({19}), operand({19})},
                            layout);
    KernelOffer offer = offer_of(call, "onednn");
    ASSERT_TRUE(offer.kernel) << offer.refusal;
    Fixture fixture(call);
    fixture.set_input(4, std::vector<float>(19, 0.7F));  // a variance is positive
    fixture.run(*offer.kernel);
    fixture.expect_reference(1e-4F, 1e-5F);
  }
}

TEST(OnednnLrn, Images) {
  for (const Layout& layout : kImageLayouts) {
    const OpCall call =
        make_call("lrn", {{"size", std::int64_t{3}}, {"alpha", 0.1}, {"beta", 0.75}, {"bias", 2.0}},
                  {operand({2, 19, 5, 3}, layout)}, layout);
    if (offer_of(call, "onednn").kernel) {
      check(call);
    }
  }
}

}  // namespace
}  // namespace tilemesh::cpu
