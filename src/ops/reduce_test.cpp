#include <cmath>
#include <limits>

#include "op_cases.hpp"

namespace tilemesh::ops::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ints = std::vector<std::int64_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::int64_t kBig = (std::int64_t{1} << 53) + 1;
constexpr std::int64_t kZero = 0;
constexpr std::int64_t kOne = 1;

TEST(Reduce, AxesAndKeptDims) {
  const Value x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  const Value rows = run("reduce_sum", {x}, {{"axes", Ints{1}}});
  EXPECT_EQ(rows.type.shape, (Shape{2, 1}));
  EXPECT_THAT(elements<float>(rows), ElementsAre(6, 15));
  const Value columns = run("reduce_sum", {x}, {{"axes", Ints{-2}}, {"keepdims", kZero}});
  EXPECT_EQ(columns.type.shape, Shape{3});
  EXPECT_THAT(elements<float>(columns), ElementsAre(5, 7, 9));
  const Value all = run("reduce_sum", {x}, {{"keepdims", kZero}});
  EXPECT_EQ(all.type.shape, Shape{});
  EXPECT_THAT(elements<float>(all), ElementsAre(21));
  EXPECT_THAT(elements<float>(run("reduce_sum", {f32({}, {7})})), ElementsAre(7));
  EXPECT_THAT(infer_error("reduce_sum", {x}, {{"axes", Ints{2}}}),
              HasSubstr("axes 2 is outside [-2,2)"));
}

TEST(Reduce, EachKind) {
  const Value x = f32({3}, {1, -2, 3});
  const auto of = [&](const char* op) {
    return elements<float>(run(op, {x}))[0];
  };
  EXPECT_FLOAT_EQ(of("reduce_mean"), 2.0F / 3);
  EXPECT_FLOAT_EQ(of("reduce_max"), 3);
  EXPECT_FLOAT_EQ(of("reduce_min"), -2);
  EXPECT_FLOAT_EQ(of("reduce_prod"), -6);
  EXPECT_FLOAT_EQ(of("reduce_l1"), 6);
  EXPECT_FLOAT_EQ(of("reduce_l2"), std::sqrt(14.0F));
  EXPECT_FLOAT_EQ(of("reduce_log_sum"), std::log(2.0F));
  EXPECT_FLOAT_EQ(of("reduce_log_sum_exp"),
                  std::log(std::exp(1.0F) + std::exp(-2.0F) + std::exp(3.0F)));
  EXPECT_FLOAT_EQ(of("reduce_sum_square"), 14);
}

TEST(Reduce, NothingGivesTheNeutralValue) {
  const auto of = [](const char* op, DType dtype = DType::f32) {
    const Value x = value<float>(dtype, {2, 0}, {});
    return run(op, {x}, {{"axes", Ints{1}}});
  };
  EXPECT_THAT(elements<float>(of("reduce_sum")), ElementsAre(0, 0));
  EXPECT_THAT(elements<float>(of("reduce_prod")), ElementsAre(1, 1));
  EXPECT_THAT(elements<float>(of("reduce_max")), ElementsAre(-kInf, -kInf));
  EXPECT_THAT(elements<float>(of("reduce_min")), ElementsAre(kInf, kInf));
  EXPECT_TRUE(std::isnan(elements<float>(of("reduce_mean"))[0]));
  EXPECT_THAT(elements<float>(of("reduce_log_sum_exp")), ElementsAre(-kInf, -kInf));
  EXPECT_THAT(elements<int>(of("reduce_max", DType::i8)), ElementsAre(-128, -128));
  EXPECT_THAT(elements<int>(of("reduce_min", DType::u8)), ElementsAre(255, 255));
  EXPECT_THAT(elements<int>(of("reduce_min", DType::boolean)), ElementsAre(1, 1));
  EXPECT_EQ(
      run("reduce_sum", {value<float>(DType::f32, {0, 3}, {})}, {{"axes", Ints{1}}}).type.shape,
      (Shape{0, 1}));
}

TEST(Reduce, IntegersStayExact) {
  const Value x = i64({3}, {kBig, 1, 1});
  EXPECT_THAT(elements<std::int64_t>(run("reduce_sum", {x})), ElementsAre(kBig + 2));
  EXPECT_THAT(elements<std::int64_t>(run("reduce_max", {x})), ElementsAre(kBig));
  EXPECT_THAT(elements<std::int64_t>(run("reduce_mean", {i64({2}, {-3, 0})})), ElementsAre(-1));
  EXPECT_THAT(elements<std::uint64_t>(
                  run("reduce_max", {value<std::uint64_t>(DType::u64, {2}, {1, ~0ULL})})),
              ElementsAre(~0ULL));
  EXPECT_THAT(elements<int>(run("reduce_max", {boolean({2}, {0, 1})})), ElementsAre(1));
}

TEST(Reduce, RootsAndLogarithmsOfIntegersAreCutOffAndHeldInRange) {
  const auto of = [](const char* op, DType dtype, const std::vector<std::int64_t>& values) {
    const Value x = value<std::int64_t>(dtype, {static_cast<std::int64_t>(values.size())}, values);
    return elements<std::int64_t>(run(op, {x}))[0];
  };
  EXPECT_EQ(of("reduce_l2", DType::i32, {2, 2}), 2);       // 2.83
  EXPECT_EQ(of("reduce_l2", DType::u8, {200, 200}), 255);  // 282.8
  EXPECT_EQ(of("reduce_l2", DType::i32, {2147483647, 2147483647}), 2147483647);
  EXPECT_EQ(of("reduce_log_sum", DType::i32, {10, 12}), 3);  // 3.09
  EXPECT_EQ(of("reduce_log_sum", DType::i32, {3, -3}), -2147483648);
  EXPECT_EQ(of("reduce_log_sum", DType::i32, {-3}), 0);  // NaN, cast
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(of("reduce_log_sum", DType::i64, {kMost, kMost}), 44);  // 64 ln 2 = 44.36
  EXPECT_EQ(of("reduce_log_sum_exp", DType::i32, {7, 7}), 7);       // 7.69
  EXPECT_EQ(of("reduce_log_sum_exp", DType::i8, {127, 127, 127}), 127);
}

TEST(Reduce, NanAndInfinity) {
  EXPECT_TRUE(std::isnan(elements<float>(run("reduce_max", {f32({2}, {kNan, 1})}))[0]));
  EXPECT_TRUE(std::isnan(elements<float>(run("reduce_min", {f32({2}, {1, kNan})}))[0]));
  EXPECT_THAT(elements<float>(run("reduce_log_sum_exp", {f32({2}, {-kInf, 5})})), ElementsAre(5));
  EXPECT_THAT(elements<float>(run("reduce_log_sum_exp", {f32({2}, {kInf, 5})})), ElementsAre(kInf));
  EXPECT_THAT(elements<float>(run("reduce_log_sum_exp", {f32({1}, {1000})})), ElementsAre(1000));
}

TEST(Arg, TiesAndDims) {
  const Value x = f32({2, 3}, {1, 3, 3, 2, 0, 0});
  const Attributes last = {{"axis", kOne}, {"select_last_index", kOne}, {"keepdims", kZero}};
  const Value first = run("arg_max", {x}, {{"axis", kOne}});
  EXPECT_EQ(first.type.dtype, DType::i64);
  EXPECT_EQ(first.type.shape, (Shape{2, 1}));
  EXPECT_THAT(elements<int>(first), ElementsAre(1, 0));
  EXPECT_EQ(run("arg_max", {x}, last).type.shape, Shape{2});
  EXPECT_THAT(elements<int>(run("arg_max", {x}, last)), ElementsAre(2, 0));
  EXPECT_THAT(elements<int>(run("arg_min", {x}, last)), ElementsAre(0, 2));
  EXPECT_THAT(elements<int>(run("arg_max", {i64({2}, {kBig - 1, kBig})})), ElementsAre(1));
  EXPECT_THAT(infer_error("arg_max", {f32({0, 2}, {})}), HasSubstr("dim 0 of [0,2]"));
}

TEST(Arg, NanIsChosen) {
  const Value x = f32({4, 3}, {1, kNan, 3, kNan, 1, kNan, 3, 1, 2, kNan, kNan, kNan});
  for (const char* op : {"arg_max", "arg_min"}) {
    const Value first = run(op, {x}, {{"axis", kOne}});
    const Value last = run(op, {x}, {{"axis", kOne}, {"select_last_index", kOne}});
    const int number = std::string_view(op) == "arg_max" ? 0 : 1;
    EXPECT_THAT(elements<int>(first), ElementsAre(1, 0, number, 0)) << op;
    EXPECT_THAT(elements<int>(last), ElementsAre(1, 2, number, 2)) << op;
  }
}

TEST(CumSum, AllModes) {
  const Value x = f32({2, 2}, {1, 2, 3, 4});
  const auto of = [&](std::int64_t axis, std::int64_t exclusive, std::int64_t reverse) {
    return elements<float>(
        run("cum_sum", {x}, {{"axis", axis}, {"exclusive", exclusive}, {"reverse", reverse}}));
  };
  EXPECT_THAT(of(0, 0, 0), ElementsAre(1, 2, 4, 6));
  EXPECT_THAT(of(1, 0, 0), ElementsAre(1, 3, 3, 7));
  EXPECT_THAT(of(1, 1, 0), ElementsAre(0, 1, 0, 3));
  EXPECT_THAT(of(1, 0, 1), ElementsAre(3, 2, 7, 4));
  EXPECT_THAT(of(1, 1, 1), ElementsAre(2, 0, 4, 0));
  EXPECT_THAT(elements<std::int64_t>(run("cum_sum", {i64({2}, {kBig, 1})})),
              ElementsAre(kBig, kBig + 1));
}

TEST(TopK, OrdersAndTies) {
  const Value x = f32({4}, {2, 5, 5, 1});
  const auto top = run_all("top_k", {x}, {{"k", std::int64_t{3}}});
  EXPECT_THAT(elements<float>(top[0]), ElementsAre(5, 5, 2));
  EXPECT_THAT(elements<int>(top[1]), ElementsAre(1, 2, 0));
  const auto low = run_all("top_k", {x}, {{"k", std::int64_t{2}}, {"largest", kZero}});
  EXPECT_THAT(elements<float>(low[0]), ElementsAre(1, 2));
  EXPECT_THAT(elements<int>(low[1]), ElementsAre(3, 0));
  EXPECT_EQ(run_all("top_k", {x}, {{"k", kZero}})[0].type.shape, Shape{0});
  EXPECT_THAT(infer_error("top_k", {x}, {{"k", std::int64_t{5}}}), HasSubstr("k of 5"));
}

TEST(TopK, NanIsTheLargest) {
  const auto top = run_all("top_k", {f32({4}, {1, kNan, kInf, kNan})}, {{"k", std::int64_t{4}}});
  EXPECT_THAT(elements<int>(top[1]), ElementsAre(1, 3, 2, 0));
}

}  // namespace
}  // namespace tilemesh::ops::testing
