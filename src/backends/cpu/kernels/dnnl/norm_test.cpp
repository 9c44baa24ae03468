#include "backends/cpu/kernels/dnnl/kernels.hpp"
#include "backends/cpu/kernels/kernel_testing.hpp"

namespace tilemesh::cpu {
namespace {

using namespace testing;

/// What kernels here like best.
const Layout kBlocked = Layout::blocked(1, onednn::library_isa().block());

const Layout kImageLayouts[] = {Layout::rows(), Layout::channels_last(4), kBlocked};

void check(const OpCall& call) {
  KernelOffer offer = offer_of(call, "onednn");
  ASSERT_TRUE(offer.kernel) << to_string(call) << ": " << offer.refusal;
  Fixture fixture(call);
  fixture.run(*offer.kernel);
  fixture.expect_reference(1e-4F, 1e-5F);
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

TEST(OnednnNorms, MoreDimsThanAnImageHasAreForOthers) {
  const OpCall lrn =
      make_call("lrn", {{"size", std::int64_t{5}}}, {operand({3, 7, 1, 2, 3, 7, 1, 2})});
  EXPECT_FALSE(offer_of(lrn, "onednn").kernel);
  const OpCall batch = make_call(
      "batch_normalization", {},
      {operand({3, 7, 1, 2, 3, 7}), operand({7}), operand({7}), operand({7}), operand({7})});
  EXPECT_FALSE(offer_of(batch, "onednn").kernel);
}

}  // namespace
}  // namespace tilemesh::cpu
