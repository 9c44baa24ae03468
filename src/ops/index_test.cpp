#include "op_cases.hpp"

namespace tilemesh::ops::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ints = std::vector<std::int64_t>;

constexpr std::int64_t kOne = 1;

/// The message that running fails with.
std::string run_error(std::string_view op, const std::vector<Value>& inputs,
                      Attributes attributes = {}) {
  try {
    run(op, inputs, std::move(attributes));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kernel_failed);
    return error.what();
  }
  return "";
}

TEST(Gather, AnyAxisAndRank) {
  const Value x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(elements<float>(run("gather", {x, i64({}, {-1})})), ElementsAre(4, 5, 6));
  const Value y = run("gather", {x, i64({1, 2}, {2, 0})}, {{"axis", kOne}});
  EXPECT_EQ(y.type.shape, (Shape{2, 1, 2}));
  EXPECT_THAT(elements<float>(y), ElementsAre(3, 1, 6, 4));
  EXPECT_THAT(elements<float>(run("gather", {x, value<int>(DType::i32, {0}, {})})), IsEmpty());
  const std::int64_t big = (std::int64_t{1} << 53) + 1;
  EXPECT_THAT(elements<std::int64_t>(run("gather", {i64({1}, {big}), i64({1}, {0})})),
              ElementsAre(big));
}

TEST(Gather, ChecksBounds) {
  const Value x = f32({3}, {1, 2, 3});
  EXPECT_EQ(run_error("gather", {x, i64({1}, {3})}), "index 3 is outside [-3,3)");
  EXPECT_EQ(run_error("gather", {x, i64({1}, {-4})}), "index -4 is outside [-3,3)");
  EXPECT_EQ(run_error("gather", {f32({0}, {}), i64({1}, {0})}), "index 0 is outside [0,0)");
  EXPECT_THAT(infer_error("gather", {x, f32({1}, {0})}), HasSubstr("wants i32 or i64, got f32"));
}

TEST(GatherElements, Values) {
  const Value x = f32({2, 2}, {1, 2, 3, 4});
  EXPECT_THAT(
      elements<float>(run("gather_elements", {x, i64({2, 2}, {0, 0, 1, -2})}, {{"axis", kOne}})),
      ElementsAre(1, 1, 4, 3));
  EXPECT_THAT(elements<float>(run("gather_elements", {x, i64({1, 2}, {1, 0})})), ElementsAre(3, 2));
  EXPECT_THAT(run_error("gather_elements", {x, i64({1, 1}, {2})}), HasSubstr("index 2"));
  EXPECT_THAT(infer_error("gather_elements", {x, i64({1, 3}, {0, 0, 0})}),
              HasSubstr("indices [1,3] reach beyond data [2,2] in dim 1"));
}

TEST(GatherNd, BatchesAndDepths) {
  const Value x = f32({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_THAT(elements<float>(run("gather_nd", {x, i64({2, 3}, {0, 0, 1, 1, -1, 0})})),
              ElementsAre(1, 6));
  EXPECT_THAT(elements<float>(run("gather_nd", {x, i64({1, 1}, {1})})), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(elements<float>(
                  run("gather_nd", {x, i64({2, 1}, {1, 0})}, {{"batch_dims", std::int64_t{1}}})),
              ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(run_error("gather_nd", {x, i64({1, 2}, {0, 2})}), HasSubstr("index 2"));
  EXPECT_THAT(infer_error("gather_nd", {x, i64({1, 4}, {0, 0, 0, 0})}),
              HasSubstr("of 4 numbers don't fit the 3 dims of data [2,2,2]"));
}

TEST(ScatterElements, Reductions) {
  const Value x = f32({3}, {1, 2, 3});
  const Value at = i64({2}, {0, -3});
  const auto with = [&](const char* reduction, const std::vector<float>& updates) {
    return elements<float>(run("scatter_elements", {x, at, f32({2}, updates)},
                               {{"reduction", std::string(reduction)}}));
  };
  EXPECT_THAT(with("none", {8, 9}), ElementsAre(9, 2, 3));
  EXPECT_THAT(with("add", {8, 9}), ElementsAre(18, 2, 3));
  EXPECT_THAT(with("mul", {8, 9}), ElementsAre(72, 2, 3));
  EXPECT_THAT(with("min", {8, -9}), ElementsAre(-9, 2, 3));
  EXPECT_THAT(with("max", {8, -9}), ElementsAre(8, 2, 3));
  EXPECT_THAT(run_error("scatter_elements", {x, i64({1}, {3}), f32({1}, {0})}),
              HasSubstr("index 3 is outside [-3,3)"));
  EXPECT_THAT(infer_error("scatter_elements", {x, at, f32({3}, {1, 2, 3})}),
              HasSubstr("wants shape [2]"));
  EXPECT_THAT(infer_error("scatter_elements", {x, at, f32({2}, {1, 2})},
                          {{"reduction", std::string("sum")}}),
              HasSubstr("got \"sum\""));
}

TEST(ScatterElements, AlongAnAxisOfABool) {
  const Value x = boolean({2, 2}, {0, 0, 0, 0});
  EXPECT_THAT(
      elements<int>(run("scatter_elements", {x, i64({2, 1}, {1, 0}), boolean({2, 1}, {1, 1})},
                        {{"axis", kOne}})),
      ElementsAre(0, 1, 1, 0));
}

TEST(ScatterNd, SlicesAndElements) {
  const Value x = i64({2, 2}, {1, 2, 3, 4});
  EXPECT_THAT(elements<int>(run("scatter_nd", {x, i64({1, 1}, {-1}), i64({1, 2}, {8, 9})})),
              ElementsAre(1, 2, 8, 9));
  EXPECT_THAT(elements<int>(run("scatter_nd", {x, i64({2, 2}, {0, 0, 0, 0}), i64({2}, {10, 20})},
                                {{"reduction", std::string("add")}})),
              ElementsAre(31, 2, 3, 4));
  EXPECT_THAT(run_error("scatter_nd", {x, i64({1, 1}, {2}), i64({1, 2}, {0, 0})}),
              HasSubstr("index 2"));
}

TEST(OneHot, WrapsAndLeavesOthersCold) {
  const Value y =
      run("one_hot", {i64({4}, {1, -1, 3, 9}), f32({2}, {0, 5})}, {{"depth", std::int64_t{3}}});
  EXPECT_EQ(y.type.shape, (Shape{4, 3}));
  EXPECT_THAT(elements<float>(y), ElementsAre(0, 5, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(elements<int>(run("one_hot", {f32({1}, {1}), boolean({2}, {0, 1})},
                                {{"depth", std::int64_t{2}}, {"axis", std::int64_t{0}}})),
              ElementsAre(0, 1));
}

}  // namespace
}  // namespace tilemesh::ops::testing
