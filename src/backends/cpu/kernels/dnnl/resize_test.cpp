#include "backends/cpu/kernels/kernel_testing.hpp"

namespace tilemesh::cpu {
namespace {

using namespace testing;
using Integers = std::vector<std::int64_t>;
using Numbers = std::vector<double>;

const Layout kLayouts[] = {Layout::rows(), Layout::channels_last(4), Layout::blocked(1, 16)};

void check(const OpCall& call) {
  KernelOffer offer = offer_of(call, "onednn");
  ASSERT_TRUE(offer.kernel) << to_string(call) << ": " << offer.refusal;
  Fixture fixture(call);
  fixture.run(*offer.kernel);
  fixture.expect_reference(1e-5F, 1e-6F);
}

Attributes resize_to(const char* mode, const char* coordinate, const char* nearest_mode,
                     const Numbers& scales, const Integers& sizes) {
  return {{"mode", std::string(mode)},
          {"coordinate", std::string(coordinate)},
          {"nearest_mode", std::string(nearest_mode)},
          {"scales", scales},
          {"sizes", sizes}};
}

TEST(OnednnResize, NearestTwice) {
  for (const Layout& layout : kLayouts) {
    for (const char* coordinate : {"asymmetric", "half_pixel"}) {
      const char* nearest_mode =
          std::string_view(coordinate) == "asymmetric" ? "floor" : "round_prefer_floor";
      check(make_call("resize",
                      resize_to("nearest", coordinate, nearest_mode, {1, 1, 2, 3}, {1, 19, 10, 21}),
                      {operand({1, 19, 5, 7}, layout)}, layout));
    }
  }
}

TEST(OnednnResize, LinearHalfPixel) {
  for (const Layout& layout : kLayouts) {
    check(make_call("resize",
                    resize_to("linear", "half_pixel", "floor", {1, 1, 2, 0.5}, {1, 5, 10, 4}),
                    {operand({1, 5, 5, 8}, layout)}, layout));
  }
}

TEST(OnednnResize, RefusesOtherRules) {
  const OpCall corners =
      make_call("resize", resize_to("linear", "align_corners", "floor", {1, 1, 2, 2}, {1, 2, 6, 6}),
                {operand({1, 2, 3, 3})});
  EXPECT_FALSE(offer_of(corners, "onednn").kernel);
  const OpCall ceil =
      make_call("resize", resize_to("nearest", "asymmetric", "ceil", {1, 1, 2, 2}, {1, 2, 6, 6}),
                {operand({1, 2, 3, 3})});
  EXPECT_FALSE(offer_of(ceil, "onednn").kernel);
}

}  // namespace
}  // namespace tilemesh::cpu
