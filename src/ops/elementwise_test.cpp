#include <cmath>
#include <limits>

#include "testing.hpp"

namespace tilemesh::ops::testing {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::int64_t kBig = (std::int64_t{1} << 53) + 1;  // no double holds it
constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();

using Ints = std::vector<std::int64_t>;

TEST(Table, IsSortedAndComplete) {
  const std::span<const OpDef> table = all_ops();
  EXPECT_TRUE(std::is_sorted(table.begin(), table.end(),
                             [](const OpDef& a, const OpDef& b) { return a.name < b.name; }));
  for (const OpDef& def : table) {
    EXPECT_TRUE(def.infer && def.factors && def.reference) << def.name;
    EXPECT_EQ(find_op(def.name), &def);
  }
  EXPECT_EQ(find_op("no_such_op"), nullptr);
  EXPECT_THROW(get_op("no_such_op"), Error);
}

TEST(Unary, KeepsNanAndInfinity) {
  const Value x = f32({4}, {kNan, kInf, -kInf, -2});
  for (const char* op : {"relu", "leaky_relu", "sigmoid", "tanh", "softplus", "clip", "sign", "elu",
                         "gelu", "hard_sigmoid", "hard_swish", "softsign", "celu", "selu"}) {
    EXPECT_TRUE(std::isnan(elements<float>(run(op, {x}))[0])) << op;
  }
  EXPECT_EQ(elements<float>(run("relu", {x}))[1], kInf);
  EXPECT_EQ(elements<float>(run("sigmoid", {x}))[2], 0);
  EXPECT_EQ(elements<float>(run("sigmoid", {x}))[1], 1);
  EXPECT_EQ(elements<float>(run("softplus", {x}))[1], kInf);
  EXPECT_EQ(elements<float>(run("softplus", {x}))[2], 0);
  EXPECT_TRUE(std::isnan(elements<float>(run("softsign", {x}))[2]));  // inf / (1 + inf)
  EXPECT_EQ(elements<float>(run("leaky_relu", {x}, {{"alpha", 0.5}}))[3], -1);
}

TEST(Unary, RoundsHalfToEven) {
  EXPECT_THAT(elements<float>(run("round", {f32({4}, {0.5F, 1.5F, 2.5F, -0.5F})})),
              ElementsAre(0, 2, 2, -0.0F));
}

TEST(Unary, IntegersStayExact) {
  EXPECT_THAT(elements<std::int64_t>(run("neg", {i64({3}, {kBig, 0, kLowest})})),
              ElementsAre(-kBig, 0, kLowest));
  EXPECT_THAT(elements<std::int64_t>(run("abs", {i64({2}, {-kBig, 3})})), ElementsAre(kBig, 3));
  EXPECT_THAT(elements<std::int64_t>(run("relu", {i64({2}, {-kBig, kBig})})), ElementsAre(0, kBig));
  EXPECT_THAT(elements<std::int64_t>(run("clip", {i64({2}, {kBig, -7})}, {{"min", -2.0}})),
              ElementsAre(kBig, -2));
  EXPECT_THAT(elements<std::int64_t>(run("identity", {i64({1}, {kBig})})), ElementsAre(kBig));
  EXPECT_THAT(elements<int>(run("neg", {value<int>(DType::i8, {2}, {-128, 5})})),
              ElementsAre(-128, -5));
}

TEST(Unary, HalvesComputeInFloat) {
  const Value x = value<float>(DType::f16, {3}, {1, 2, 3});
  const Value y = run("exp", {x});
  EXPECT_EQ(y.type.dtype, DType::f16);
  EXPECT_NEAR(elements<double>(y)[2], std::exp(3), 0.01);
}

TEST(Unary, ZeroSizesAndScalars) {
  EXPECT_THAT(elements<float>(run("exp", {f32({0, 3}, {})})), IsEmpty());
  EXPECT_THAT(elements<float>(run("neg", {f32({}, {2})})), ElementsAre(-2));
}

TEST(Unary, ErrorsNameOpAndDtype) {
  EXPECT_EQ(infer_error("exp", {i64({1}, {1})}), "exp: input 0 wants a float, got i64");
  EXPECT_EQ(infer_error("not", {f32({1}, {1})}), "not: input 0 wants bool, got f32");
  EXPECT_THAT(infer_error("gelu", {f32({1}, {1})}, {{"approximate", std::string("maybe")}}),
              HasSubstr("\"maybe\""));
  EXPECT_THAT(infer_error("elu", {f32({1}, {1})}, {{"alpha", std::int64_t{1}}}),
              HasSubstr("wants a number, got an integer"));
  EXPECT_THAT(infer_error("exp", {}), HasSubstr("wants 1 inputs, got 0"));
}

TEST(Unary, Tests) {
  const Value x = f32({4}, {kNan, kInf, -kInf, 1});
  EXPECT_THAT(elements<int>(run("is_nan", {x})), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(elements<int>(run("is_inf", {x})), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(elements<int>(run("is_inf", {x}, {{"detect_negative", std::int64_t{0}}})),
              ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(elements<int>(run("not", {boolean({2}, {0, 1})})), ElementsAre(1, 0));
}

TEST(Unary, ThresholdAndShrink) {
  const Value x = f32({4}, {-2, -0.5F, 1, 3});
  EXPECT_THAT(elements<float>(run("thresholded_relu", {x}, {{"alpha", 1.0}})),
              ElementsAre(0, 0, 0, 3));
  EXPECT_THAT(elements<float>(run("shrink", {x}, {{"lambd", 1.0}, {"bias", 0.5}})),
              ElementsAre(-1.5F, 0, 0, 2.5F));
  // "Otherwise 0": NaN is beyond no threshold.
  EXPECT_THAT(elements<float>(run("thresholded_relu", {f32({2}, {kNan, kInf})})),
              ElementsAre(0, kInf));
  EXPECT_THAT(elements<float>(run("shrink", {f32({2}, {kNan, -kInf})})), ElementsAre(0, -kInf));
}

TEST(Binary, Broadcasts) {
  const Value a = f32({2, 1}, {1, 2});
  const Value b = f32({3}, {10, 20, 30});
  const Value y = run("add", {a, b});
  EXPECT_EQ(y.type.shape, (Shape{2, 3}));
  EXPECT_THAT(elements<float>(y), ElementsAre(11, 21, 31, 12, 22, 32));
  EXPECT_EQ(run("add", {f32({0, 1}, {}), b}).type.shape, (Shape{0, 3}));
  EXPECT_THAT(infer_error("add", {a, f32({3, 2}, {1, 2, 3, 4, 5, 6})}),
              HasSubstr("shapes [2,1] and [3,2] don't broadcast"));
  EXPECT_THAT(infer_error("add", {a, i64({1}, {1})}), HasSubstr("got f32 and i64"));
}

TEST(Binary, IntegersWrapAndTruncate) {
  EXPECT_THAT(elements<std::int64_t>(run("add", {i64({1}, {kBig}), i64({1}, {1})})),
              ElementsAre(kBig + 1));
  EXPECT_THAT(elements<std::int64_t>(
                  run("div", {i64({4}, {-7, 7, kLowest, kBig}), i64({4}, {2, -2, -1, 1})})),
              ElementsAre(-3, -3, kLowest, kBig));
  EXPECT_THAT(
      elements<int>(run("sub", {value<int>(DType::u8, {1}, {3}), value<int>(DType::u8, {1}, {5})})),
      ElementsAre(254));
  EXPECT_THAT(elements<std::uint64_t>(
                  run("max", {value<std::uint64_t>(DType::u64, {1}, {~std::uint64_t{0}}),
                              value<std::uint64_t>(DType::u64, {1}, {1})})),
              ElementsAre(~std::uint64_t{0}));
}

TEST(Binary, IntegerDivisionByZeroIsAnError) {
  try {
    run("div", {i64({1}, {1}), i64({1}, {0})});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kernel_failed);
  }
}

TEST(Binary, NanWinsInMinAndMax) {
  const Value a = f32({3}, {kNan, 1, 2});
  const Value b = f32({3}, {1, kNan, 3});
  for (const char* op : {"min", "max"}) {
    const auto y = elements<float>(run(op, {a, b}));
    EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1])) << op;
    EXPECT_EQ(y[2], std::string(op) == "min" ? 2 : 3);
  }
}

TEST(Binary, PowersOfMixedTypes) {
  EXPECT_THAT(elements<std::int64_t>(run("pow", {i64({3}, {3, -2, 2}), i64({3}, {4, 3, -1})})),
              ElementsAre(81, -8, 0));
  EXPECT_THAT(elements<std::int64_t>(run("pow", {i64({2}, {4, 2}), f32({2}, {0.5F, 3})})),
              ElementsAre(2, 8));
  EXPECT_THAT(elements<float>(run("pow", {f32({1}, {2}), i64({1}, {3})})), ElementsAre(8));
}

TEST(Binary, ModHasTheDivisorsSign) {
  EXPECT_THAT(elements<std::int64_t>(
                  run("mod", {i64({4}, {-7, 7, -7, kLowest}), i64({4}, {3, -3, -3, -1})})),
              ElementsAre(2, -2, -1, 0));
  EXPECT_THAT(elements<std::int64_t>(
                  run("mod", {i64({2}, {-7, 7}), i64({2}, {3, -3})}, {{"fmod", std::int64_t{1}}})),
              ElementsAre(-1, 1));
  EXPECT_THAT(infer_error("mod", {f32({1}, {1}), f32({1}, {1})}), HasSubstr("\"fmod\" wants 1"));
}

TEST(Binary, Shifts) {
  const Value x = value<int>(DType::u8, {3}, {16, 255, 1});
  const Value by = value<int>(DType::u8, {3}, {2, 4, 9});
  EXPECT_THAT(elements<int>(run("bit_shift", {x, by}, {{"direction", std::string("LEFT")}})),
              ElementsAre(64, 240, 0));
  EXPECT_THAT(elements<int>(run("bit_shift", {x, by}, {{"direction", std::string("RIGHT")}})),
              ElementsAre(4, 15, 0));
}

TEST(Binary, PreluSlopeBroadcastsOneWay) {
  EXPECT_THAT(elements<float>(run("prelu", {f32({2, 2}, {-1, 2, -3, 4}), f32({2}, {0.5F, 9})})),
              ElementsAre(-0.5F, 2, -1.5F, 4));
  EXPECT_THAT(infer_error("prelu", {f32({1}, {1}), f32({2}, {1, 2})}), HasSubstr("[2]"));
}

TEST(Compare, IntegersAboveDoublesPrecision) {
  const Value a = i64({2}, {kBig, kBig});
  const Value b = i64({2}, {kBig - 1, kBig});
  EXPECT_THAT(elements<int>(run("equal", {a, b})), ElementsAre(0, 1));
  EXPECT_THAT(elements<int>(run("greater", {a, b})), ElementsAre(1, 0));
  EXPECT_THAT(elements<int>(run("less_or_equal", {a, b})), ElementsAre(0, 1));
}

TEST(Compare, NanIsUnequal) {
  const Value a = f32({2}, {kNan, 1});
  EXPECT_THAT(elements<int>(run("equal", {a, a})), ElementsAre(0, 1));
  EXPECT_THAT(elements<int>(run("less", {a, f32({}, {2})})), ElementsAre(0, 1));
}

TEST(Compare, Logic) {
  const Value a = boolean({4}, {0, 0, 1, 1});
  const Value b = boolean({4}, {0, 1, 0, 1});
  EXPECT_THAT(elements<int>(run("and", {a, b})), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(elements<int>(run("or", {a, b})), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(elements<int>(run("xor", {a, b})), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(elements<int>(run("equal", {a, b})), ElementsAre(1, 0, 0, 1));
}

TEST(Where, BroadcastsAllThree) {
  const Value y = run("where", {boolean({2, 1}, {1, 0}), i64({3}, {1, 2, kBig}), i64({}, {-1})});
  EXPECT_EQ(y.type.shape, (Shape{2, 3}));
  EXPECT_THAT(elements<std::int64_t>(y), ElementsAre(1, 2, kBig, -1, -1, -1));
}

TEST(Cast, SaturatesFloatsAndWrapsIntegers) {
  const auto to = [](DType dtype) {
    return Attributes{{"to", static_cast<std::int64_t>(dtype)}};
  };
  EXPECT_THAT(elements<int>(run("cast", {f32({3}, {1.9F, -1.9F, 0})}, to(DType::i32))),
              ElementsAre(1, -1, 0));
  EXPECT_THAT(elements<int>(run("cast", {i64({2}, {257, -1})}, to(DType::u8))),
              ElementsAre(1, 255));
  EXPECT_THAT(elements<int>(run("cast", {f32({3}, {0, 0.5F, kNan})}, to(DType::boolean))),
              ElementsAre(0, 1, 1));
  EXPECT_THAT(infer_error("cast", {f32({1}, {1})}, {{"to", std::int64_t{77}}}), HasSubstr("77"));
  EXPECT_THAT(infer_error("cast", {f32({1}, {1})}), HasSubstr("\"to\" is missing"));
  EXPECT_EQ(run("convert", {f32({1}, {1})}).type.dtype, DType::f32);
}

}  // namespace
}  // namespace tilemesh::ops::testing
