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
        ASSERT_TRUE(offer.kernel) << offer.refusal;
        Fixture fixture(call);
        fixture.run(*offer.kernel);
        fixture.expect_reference(0, 0);
      }
    }
  }
}

TEST(OnednnConvert, KeepsEveryBit) {
  const OpCall call =
      make_call("convert", {}, {operand({2, 3}, Layout::rows(), DType::i32)}, Layout::parse("ba"));
  KernelOffer offer = offer_of(call, "onednn");
  ASSERT_TRUE(offer.kernel) << offer.refusal;
  // A signalling NaN of f32 among others.
  const std::int32_t values[] = {0x7f800001, -1, 0x7fffffff, 1 << 30, -(1 << 30), 3};
  std::int32_t result[6] = {};
  std::byte* operands[] = {const_cast<std::byte*>(reinterpret_cast<const std::byte*>(values)),
                           reinterpret_cast<std::byte*>(result)};
  Buffer scratch(offer.kernel->scratch_bytes());
  offer.kernel->run(operands, scratch.data());
  const std::int32_t expected[] = {values[0], values[3], values[1],
                                   values[4], values[2], values[5]};
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
