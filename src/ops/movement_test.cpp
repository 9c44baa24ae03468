#include <limits>
#include <numeric>

#include "op_cases.hpp"

namespace tilemesh::ops::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ints = std::vector<std::int64_t>;

constexpr std::int64_t kOne = 1;

Value counting(const Shape& shape, DType dtype = DType::f32) {
  std::vector<int> elements(static_cast<std::size_t>(shape.element_count()));
  std::iota(elements.begin(), elements.end(), 0);
  return value(dtype, shape, elements);
}

std::vector<int> ints(const Value& value) {
  return elements<int>(value);
}

TEST(Reshape, KeepsTheBytes) {
  const Value y = run("reshape", {counting({2, 3})}, {{"shape", Ints{3, 1, 2}}});
  EXPECT_EQ(y.type.shape, (Shape{3, 1, 2}));
  EXPECT_THAT(ints(y), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(run("reshape", {f32({0, 3}, {})}, {{"shape", Ints{7, 0}}}).type.shape, (Shape{7, 0}));
  EXPECT_EQ(run("reshape", {counting({1, 1})}, {{"shape", Ints{}}}).type.shape, Shape{});
  EXPECT_THAT(infer_error("reshape", {counting({2, 3})}, {{"shape", Ints{4}}}),
              HasSubstr("[2,3] has 6 elements, the wanted shape [4] has 4"));
}

TEST(Transpose, AllElementSizes) {
  for (const DType dtype : {DType::i8, DType::f16, DType::f32, DType::i64, DType::boolean}) {
    const Value x = value<int>(dtype, {2, 3}, {0, 1, 1, 0, 0, 1});
    const Value y = run("transpose", {x}, {{"order", Ints{1, 0}}});
    EXPECT_EQ(y.type.shape, (Shape{3, 2}));
    EXPECT_THAT(ints(y), ElementsAre(0, 0, 1, 0, 1, 1)) << to_string(dtype);
  }
  EXPECT_THAT(ints(run("transpose", {counting({2, 1, 3})}, {{"order", Ints{2, 1, 0}}})),
              ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(ints(run("transpose", {counting({})}, {{"order", Ints{}}})), ElementsAre(0));
  EXPECT_THAT(infer_error("transpose", {counting({2, 3})}, {{"order", Ints{1, 1}}}),
              HasSubstr("attribute \"order\" names dim 1 twice"));
}

TEST(Concat, OffTheFirstAxis) {
  const Value a = counting({2, 1, 2});
  const Value b = counting({2, 2, 2});
  const Value empty = f32({2, 0, 2}, {});
  const Value y = run("concat", {a, empty, b}, {{"axis", kOne}});
  EXPECT_EQ(y.type.shape, (Shape{2, 3, 2}));
  EXPECT_THAT(ints(y), ElementsAre(0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(infer_error("concat", {a, counting({3, 2, 2})}, {{"axis", kOne}}),
              HasSubstr("input 1 wants shape [2,2,2] (as input 0 off the axis), got [3,2,2]"));
}

TEST(Split, GivesBackWhatConcatTook) {
  const auto parts =
      run_all("split", {counting({2, 3})}, {{"axis", kOne}, {"sizes", Ints{1, 0, 2}}});
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_THAT(ints(parts[0]), ElementsAre(0, 3));
  EXPECT_THAT(ints(parts[1]), IsEmpty());
  EXPECT_THAT(ints(parts[2]), ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(infer_error("split", {counting({3})}, {{"sizes", Ints{1, 1}}}),
              HasSubstr("sizes 1,1 add up to 2, dim 0 of [3] has 3"));
}

Attributes cut(Ints starts, Ints ends, Ints axes, Ints steps) {
  return {{"starts", std::move(starts)},
          {"ends", std::move(ends)},
          {"axes", std::move(axes)},
          {"steps", std::move(steps)}};
}

TEST(Slice, StepsOfBothSigns) {
  const Value x = counting({2, 5});
  EXPECT_THAT(ints(run("slice", {x}, cut({1}, {4}, {1}, {1}))), ElementsAre(1, 2, 3, 6, 7, 8));
  EXPECT_THAT(ints(run("slice", {x}, cut({0}, {5}, {1}, {3}))), ElementsAre(0, 3, 5, 8));
  EXPECT_THAT(ints(run("slice", {x}, cut({4}, {-1}, {1}, {-2}))), ElementsAre(4, 2, 0, 9, 7, 5));
  EXPECT_THAT(ints(run("slice", {x}, cut({1, 3}, {-1, 1}, {0, 1}, {-1, -1}))),
              ElementsAre(8, 7, 3, 2));
  EXPECT_THAT(ints(run("slice", {x}, cut({2}, {2}, {1}, {1}))), IsEmpty());
  EXPECT_EQ(run("slice", {f32({0}, {})}, cut({-1}, {-1}, {0}, {-1})).type.shape, Shape{0});
}

TEST(Slice, ErrorsShowTheSlice) {
  EXPECT_THAT(infer_error("slice", {counting({5})}, cut({2}, {6}, {0}, {1})),
              HasSubstr("the slice 2:6:1 leaves dim 0 of [5]"));
  EXPECT_THAT(infer_error("slice", {counting({5})}, cut({0}, {5}, {0}, {0})), HasSubstr("0:5:0"));
  EXPECT_THAT(infer_error("slice", {counting({5})}, cut({0}, {5, 5}, {0}, {1})),
              HasSubstr("attribute \"ends\" wants 1 numbers, got 2"));
}

TEST(Expand, BroadcastsBothWays) {
  const Value y = run("expand", {counting({2, 1})}, {{"shape", Ints{2, 1, 3}}});
  EXPECT_EQ(y.type.shape, (Shape{2, 2, 3}));
  EXPECT_THAT(ints(y), ElementsAre(0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1));
  EXPECT_EQ(run("expand", {counting({3})}, {{"shape", Ints{1}}}).type.shape, Shape{3});
}

TEST(Tile, Repeats) {
  EXPECT_THAT(ints(run("tile", {counting({2, 2})}, {{"repeats", Ints{1, 2}}})),
              ElementsAre(0, 1, 0, 1, 2, 3, 2, 3));
  EXPECT_THAT(ints(run("tile", {counting({2})}, {{"repeats", Ints{0}}})), IsEmpty());
  EXPECT_THAT(infer_error("tile", {counting({2})}, {{"repeats", Ints{-1}}}), HasSubstr("got -1"));
}

TEST(Pad, EachMode) {
  const Value x = counting({3});
  const auto padded = [&](const char* mode, Ints pads) {
    return ints(run("pad", {x}, {{"mode", std::string(mode)}, {"pads", std::move(pads)}}));
  };
  EXPECT_THAT(ints(run("pad", {x, f32({}, {9})}, {{"pads", Ints{1, 2}}})),
              ElementsAre(9, 0, 1, 2, 9, 9));
  EXPECT_THAT(padded("constant", {1, 0}), ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(padded("constant", {-1, 1}), ElementsAre(1, 2, 0));
  EXPECT_THAT(padded("edge", {2, 1}), ElementsAre(0, 0, 0, 1, 2, 2));
  EXPECT_THAT(padded("reflect", {2, 2}), ElementsAre(2, 1, 0, 1, 2, 1, 0));
  EXPECT_THAT(padded("reflect", {5, 0}), ElementsAre(1, 0, 1, 2, 1, 0, 1, 2));
  EXPECT_THAT(padded("wrap", {1, 2}), ElementsAre(2, 0, 1, 2, 0, 1));
  EXPECT_THAT(
      ints(run("pad", {f32({1}, {4})}, {{"mode", std::string("reflect")}, {"pads", Ints{1, 1}}})),
      ElementsAre(4, 4, 4));
  EXPECT_THAT(ints(run("pad", {f32({0}, {})}, {{"pads", Ints{1, 1}}})), ElementsAre(0, 0));
}

TEST(Pad, Errors) {
  const Value x = counting({3});
  EXPECT_THAT(infer_error("pad", {x}, {{"pads", Ints{-2, -2}}}),
              HasSubstr("pads -2 and -2 don't fit dim 0 of [3]"));
  EXPECT_THAT(infer_error("pad", {x}, {{"pads", Ints{1}}}), HasSubstr("wants 2 numbers, got 1"));
  EXPECT_THAT(
      infer_error("pad", {f32({0}, {})}, {{"mode", std::string("edge")}, {"pads", Ints{1, 1}}}),
      HasSubstr("don't fit"));
  EXPECT_THAT(infer_error("pad", {x, i64({}, {1})}, {{"pads", Ints{1, 1}}}),
              HasSubstr("got f32 and i64"));
}

TEST(DepthToSpace, BothModes) {
  const Value x = counting({1, 8, 1, 1});
  const auto of = [&](const char* mode) {
    return run("depth_to_space", {x},
               {{"blocksize", std::int64_t{2}}, {"mode", std::string(mode)}});
  };
  EXPECT_EQ(of("DCR").type.shape, (Shape{1, 2, 2, 2}));
  EXPECT_THAT(ints(of("DCR")), ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
  EXPECT_THAT(ints(of("CRD")), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(SpaceToDepth, UndoesDepthToSpace) {
  const Value x = counting({2, 3, 4, 6});
  const Attributes block = {{"blocksize", std::int64_t{2}}};
  const Value deep = run("space_to_depth", {x}, block);
  EXPECT_EQ(deep.type.shape, (Shape{2, 12, 2, 3}));
  EXPECT_EQ(ints(run("depth_to_space", {deep}, block)), ints(x));
  EXPECT_THAT(infer_error("space_to_depth", {counting({1, 1, 3, 2})}, block),
              HasSubstr("[1,1,3,2] doesn't divide into blocks of 2x2"));
}

TEST(Trilu, Diagonals) {
  const Value x = i64({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(ints(run("trilu", {x})), ElementsAre(1, 2, 3, 0, 5, 6));
  EXPECT_THAT(ints(run("trilu", {x}, {{"k", kOne}})), ElementsAre(0, 2, 3, 0, 0, 6));
  EXPECT_THAT(ints(run("trilu", {x}, {{"upper", std::int64_t{0}}, {"k", std::int64_t{-1}}})),
              ElementsAre(0, 0, 0, 4, 0, 0));
}

TEST(ReverseSequence, ReversesAPrefix) {
  const Value x = counting({3, 2});
  EXPECT_THAT(ints(run("reverse_sequence", {x, i64({2}, {3, 2})})), ElementsAre(4, 3, 2, 1, 0, 5));
  EXPECT_THAT(ints(run("reverse_sequence", {x, i64({3}, {2, 1, 0})},
                       {{"batch_axis", std::int64_t{0}}, {"time_axis", kOne}})),
              ElementsAre(1, 0, 2, 3, 4, 5));
  try {
    run("reverse_sequence", {x, i64({2}, {3, 4})});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kernel_failed);
    EXPECT_THAT(error.what(), HasSubstr("length 4 is outside [0,3]"));
  }
}

}  // namespace
}  // namespace tilemesh::ops::testing
