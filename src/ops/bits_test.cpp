#include <limits>

#include "testing.hpp"

/// Ops on bits, products along a dim, and casts by another rule. Values by hand.
namespace tilemesh::ops::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Attributes to(DType dtype) {
  return {{"to", static_cast<std::int64_t>(dtype)}};
}

TEST(Bits, OfPairsOfEveryWidth) {
  const Value a = value<int>(DType::u8, {4}, {0b1100, 255, 0, 1});
  const Value b = value<int>(DType::u8, {1}, {0b1010});
  EXPECT_THAT(elements<int>(run("bit_and", {a, b})), ElementsAre(0b1000, 0b1010, 0, 0));
  EXPECT_THAT(elements<int>(run("bit_or", {a, b})), ElementsAre(0b1110, 255, 0b1010, 0b1011));
  EXPECT_THAT(elements<int>(run("bit_xor", {a, b})), ElementsAre(0b0110, 0b11110101, 0b1010, 11));
  EXPECT_THAT(elements<int>(run("bit_not", {a})), ElementsAre(0b11110011, 0, 255, 254));
  const std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  EXPECT_THAT(elements<std::int64_t>(run("bit_xor", {i64({2}, {lowest, -1}), i64({}, {-1})})),
              ElementsAre(std::numeric_limits<std::int64_t>::max(), 0));
  EXPECT_THAT(elements<int>(run("bit_not", {value<int>(DType::i16, {2}, {0, 5})})),
              ElementsAre(-1, -6));
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  const Value wide = value<std::uint64_t>(DType::u64, {1}, {most - 1});
  EXPECT_THAT(elements<std::uint64_t>(run("bit_or", {wide, wide})), ElementsAre(most - 1));
}

TEST(Bits, OfIntegersAlone) {
  EXPECT_THAT(infer_error("bit_not", {f32({1}, {1})}), HasSubstr("an integer"));
  EXPECT_THAT(infer_error("bit_and", {boolean({1}, {1}), boolean({1}, {1})}),
              HasSubstr("an integer"));
  EXPECT_THAT(infer_error("bit_and", {i64({1}, {1}), value<int>(DType::i32, {1}, {1})}),
              HasSubstr("same dtype"));
}

TEST(BitCast, KeepsTheBits) {
  const Value x = run("bit_cast", {f32({2}, {1, -2})}, to(DType::i32));
  EXPECT_THAT(elements<int>(x), ElementsAre(0x3f800000, static_cast<int>(0xc0000000)));
  EXPECT_THAT(elements<float>(run("bit_cast", {x}, to(DType::f32))), ElementsAre(1, -2));
  EXPECT_THAT(elements<int>(run("bit_cast", {value<int>(DType::i8, {2}, {-1, 1})}, to(DType::u8))),
              ElementsAre(255, 1));
  EXPECT_THAT(elements<int>(run("bit_cast", {value<int>(DType::u4, {2}, {15, 7})}, to(DType::i4))),
              ElementsAre(-1, 7));
  EXPECT_THAT(elements<int>(run("bit_cast", {value<int>(DType::i2, {2}, {-2, 1})}, to(DType::u2))),
              ElementsAre(2, 1));
  const Value bits = run("bit_cast", {value<int>(DType::u8, {3}, {0, 1, 2})}, to(DType::boolean));
  EXPECT_THAT(bits.data, ElementsAre(std::byte{0}, std::byte{1}, std::byte{1}));
}

TEST(BitCast, WantsAsManyBits) {
  EXPECT_THAT(infer_error("bit_cast", {f32({1}, {1})}, to(DType::i64)), HasSubstr("i64 has 64"));
  EXPECT_THAT(infer_error("bit_cast", {value<int>(DType::u8, {1}, {1})}, to(DType::i4)),
              HasSubstr("u8 has 8 bits, i4 has 4"));
}

TEST(CumProd, EveryWay) {
  const Value x = i64({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto along = [&](std::int64_t axis, bool exclusive, bool reverse) {
    return elements<std::int64_t>(run("cum_prod", {x},
                                      {{"axis", axis},
                                       {"exclusive", std::int64_t{exclusive}},
                                       {"reverse", std::int64_t{reverse}}}));
  };
  EXPECT_THAT(along(1, false, false), ElementsAre(1, 2, 6, 4, 20, 120));
  EXPECT_THAT(along(-1, true, false), ElementsAre(1, 1, 2, 1, 4, 20));
  EXPECT_THAT(along(1, false, true), ElementsAre(6, 6, 3, 120, 30, 6));
  EXPECT_THAT(along(1, true, true), ElementsAre(6, 3, 1, 30, 6, 1));
  EXPECT_THAT(along(0, false, false), ElementsAre(1, 2, 3, 4, 10, 18));
}

TEST(CastNarrow, ByItsRule) {
  const Value x = f32({3}, {1e6F, -1e6F, 1});
  Attributes strict = to(DType::f8e5m2);
  strict.set("saturate", std::int64_t{0});
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(elements<float>(run("cast_narrow", {x}, strict)),
              ElementsAre(infinity, -infinity, 1));
  EXPECT_THAT(elements<float>(run("cast", {x}, to(DType::f8e5m2))), ElementsAre(57344, -57344, 1));
  Attributes down = to(DType::f8e8m0);
  down.set("round_mode", std::string("down"));
  EXPECT_THAT(elements<float>(run("cast_narrow", {f32({2}, {3, 0.7F})}, down)),
              ElementsAre(2, 0.5F));
  EXPECT_THAT(infer_error("cast_narrow", {x}, to(DType::f16)), HasSubstr("storage format"));
  down.set("round_mode", std::string("away"));
  EXPECT_THAT(infer_error("cast_narrow", {x}, down), HasSubstr("\"away\""));
}

// Ops that only move elements take storage formats, those that compute refuse them.
TEST(Storage, IsMovedAndNotComputedIn) {
  const Value x = value<int>(DType::i4, {2, 2}, {-8, 7, 0, 1});
  EXPECT_THAT(elements<int>(run("transpose", {x}, {{"order", std::vector<std::int64_t>{1, 0}}})),
              ElementsAre(-8, 0, 7, 1));
  EXPECT_THAT(elements<int>(run("identity", {x})), ElementsAre(-8, 7, 0, 1));
  EXPECT_THAT(elements<int>(run("where", {boolean({2}, {1, 0}), x, x})), ElementsAre(-8, 7, 0, 1));
  for (const char* op : {"add", "mul", "max", "equal", "less"})
    EXPECT_NE(infer_error(op, {x, x}), "") << op;
  for (const char* op : {"neg", "relu", "exp", "reduce_sum", "reduce_max", "softmax"})
    EXPECT_NE(infer_error(op, {x}), "") << op;
}

}  // namespace
}  // namespace tilemesh::ops::testing
