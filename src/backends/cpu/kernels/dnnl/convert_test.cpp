#include "backends/cpu/kernels/kernel_testing.hpp"

namespace tilemesh::cpu {
namespace {

using namespace testing;

TEST(OnednnConvert, BetweenLayouts) {
  const Layout layouts[] = {
      Layout::rows(),        Layout::channels_last(4),  Layout::blocked(1, 16),
      Layout::blocked(1, 8), Layout::parse("ABcd4b4a"), Layout::tiled(4, 4, 8)};
  for (const std::int64_t channels : {1, 3, 16, 31}) {
    for (const Layout& from : layouts) {
      for (const Layout& to : layouts) {
        const Shape shape{2, channels, 5, 7};
        const OpCall call = make_call("convert", {}, {operand(shape, from)}, to);
        KernelOffer offer = offer_of(call, "onednn");
        if (from.is_rows() || to.is_rows()) {
          EXPECT_FALSE(offer.kernel);  // there is a faster one
          continue;
        }
        ASSERT_TRUE(offer.kernel) << offer.refusal;
        Fixture fixture(call);
        fixture.run(*offer.kernel);
        fixture.expect_reference(0, 0);
      }
    }
  }
}

TEST(OnednnConvert, KeepsEveryBit) {
  const Layout columns = Layout::parse("ba");
  const Layout blocked = Layout::parse("aB2b");
  const OpCall call = make_call("convert", {}, {operand({2, 3}, columns, DType::i32)}, blocked);
  KernelOffer offer = offer_of(call, "onednn");
  ASSERT_TRUE(offer.kernel) << offer.refusal;
  // A signalling NaN of f32 among others.
  std::int32_t values[] = {0x7f800001, -1, 0x7fffffff, 1 << 30, -(1 << 30), 3};
  std::int32_t result[8] = {};
  std::int32_t expected[8] = {};
  std::byte* operands[] = {reinterpret_cast<std::byte*>(values),
                           reinterpret_cast<std::byte*>(result)};
  Buffer scratch(offer.kernel->scratch_bytes());
  offer.kernel->run(operands, scratch.data());
  relayout(operands[0], DType::i32, columns, reinterpret_cast<std::byte*>(expected), DType::i32,
           blocked, Shape{2, 3});
  EXPECT_EQ(std::memcmp(result, expected, sizeof(result)), 0);
}

TEST(OnednnConvert, RefusesWhatItWouldRound) {
  const OpCall call =
      make_call("convert", {{"to", std::int64_t{5}}}, {operand({4})});  // f32 to i32
  EXPECT_FALSE(offer_of(call, "onednn").kernel);
  const OpCall wide =
      make_call("convert", {}, {operand({2, 3}, Layout::rows(), DType::i64)}, Layout::parse("ba"));
  EXPECT_FALSE(offer_of(wide, "onednn").kernel);
}

}  // namespace
}  // namespace tilemesh::cpu
