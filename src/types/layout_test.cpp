#include "tilemesh/types/layout.hpp"

#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/types/strided.hpp"

namespace tilemesh {
namespace {

using testing::HasSubstr;

std::string parse_error(std::string_view text) {
  try {
    Layout::parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  ADD_FAILURE() << "\"" << text << "\" was taken";
  return "";
}

TEST(Layout, IsWrittenInTheLettersOfOneDnn) {
  EXPECT_EQ(Layout::rows().to_string(4), "rows");
  EXPECT_EQ(Layout::channels_last(4).to_string(4), "acdb");
  EXPECT_EQ(Layout::channels_last(3).to_string(3), "acb");
  EXPECT_EQ(Layout::blocked(1, 16).to_string(4), "aBcd16b");
  EXPECT_EQ(Layout::blocked(1, 8).to_string(2), "aB8b");
  EXPECT_EQ(Layout::tiled(2, 32, 32).to_string(2), "AB32a32b");
  EXPECT_EQ(Layout::tiled(3, 32, 16).to_string(3), "aBC32b16c");
  EXPECT_EQ(Layout({}, {{1, 16}, {0, 16}}).to_string(4), "ABcd16b16a");
  EXPECT_EQ(Layout({1, 0}, {{0, 16}, {1, 64}, {0, 4}}).to_string(2), "BA16a64b4a");
  EXPECT_EQ(Layout::opaque({"cpu", "winograd", 1024}).to_string(4), "opaque(cpu:winograd:1024)");
}

TEST(Layout, ParsesThem) {
  EXPECT_EQ(Layout::parse("rows"), Layout::rows());
  EXPECT_EQ(Layout::parse("abcd"), Layout::rows());
  EXPECT_EQ(Layout::parse("acdb"), Layout::channels_last(4));
  EXPECT_EQ(Layout::parse("aBcd16b"), Layout::blocked(1, 16));
  EXPECT_EQ(Layout::parse("ABcd16b16a"), Layout({}, {{1, 16}, {0, 16}}));
  EXPECT_EQ(Layout::parse("ABcd4b16a4b"), Layout({}, {{1, 4}, {0, 16}, {1, 4}}));
  EXPECT_EQ(Layout::parse("opaque(cpu:a:b:7)"), Layout::opaque({"cpu", "a:b", 7}));
  EXPECT_EQ(Layout::parse("opaque(cpu::0)"), Layout::opaque({"cpu", "", 0}));
}

TEST(Layout, SaysWhatIsWrongWithAText) {
  EXPECT_THAT(parse_error(""), HasSubstr("no dims"));
  EXPECT_THAT(parse_error("16b"), HasSubstr("no dims"));
  EXPECT_THAT(parse_error("acb d"), HasSubstr("\" \" is no dim"));
  EXPECT_THAT(parse_error("aab"), HasSubstr("comes twice"));
  EXPECT_THAT(parse_error("abd"), HasSubstr("\"d\" is no dim of 3"));
  EXPECT_THAT(parse_error("abcd16b"), HasSubstr("write it as a capital"));
  EXPECT_THAT(parse_error("aBcd"), HasSubstr("has no block"));
  EXPECT_THAT(parse_error("aBcd16"), HasSubstr("without its small letter"));
  EXPECT_THAT(parse_error("aBcd16B"), HasSubstr("without its small letter"));
  EXPECT_THAT(parse_error("aBcd1b"), HasSubstr("2 or more"));
  EXPECT_THAT(parse_error("aBcd-4b"), HasSubstr("is no dim"));
  EXPECT_THAT(parse_error("aBcd16b16"), HasSubstr("without its small letter"));
  EXPECT_THAT(parse_error("aBcd16b-2b"), HasSubstr("2 or more"));
  EXPECT_THAT(parse_error("aBcd16z"), HasSubstr("\"z\" is no dim of 4"));
  EXPECT_THAT(parse_error("aBcd99999999999b"), HasSubstr("2 or more"));
  EXPECT_THAT(parse_error("A2a2a2a2a2a2a2a"), HasSubstr("more than 6 blocks"));
  EXPECT_THAT(parse_error("abcdefghi"), HasSubstr("9 dims"));
  EXPECT_THAT(parse_error("opaque(cpu:x)"), HasSubstr("opaque(backend:tag:bytes)"));
  EXPECT_THAT(parse_error("opaque(cpu:x:1"), HasSubstr("opaque(backend:tag:bytes)"));
  EXPECT_THAT(parse_error("opaque(cpu:x:1k)"), HasSubstr("\"1k\""));
  EXPECT_THAT(parse_error("opaque(cpu:x:-1)"), HasSubstr("-1 bytes"));
  EXPECT_THAT(parse_error("opaque(:x:1)"), HasSubstr("backend name"));
  EXPECT_THAT(parse_error("\xc3\xa4"), HasSubstr("is no dim"));
}

TEST(Layout, RefusesWrongParts) {
  EXPECT_THROW(Layout({0, 2}, {}), Error);
  EXPECT_THROW(Layout({0, 0}, {}), Error);
  EXPECT_THROW(Layout({0, -1}, {}), Error);
  EXPECT_THROW(Layout({}, {{8, 2}}), Error);
  EXPECT_THROW(Layout({1, 0}, {{2, 2}}), Error);
  EXPECT_THROW(Layout({}, {{0, 1}}), Error);
  EXPECT_THROW(Layout({}, {{-1, 4}}), Error);
  constexpr std::int32_t kBig = 1 << 30;
  EXPECT_THROW(Layout({}, {{0, kBig}, {0, kBig}, {0, kBig}}), Error);
  EXPECT_THROW(Layout::channels_last(1), Error);
  EXPECT_THROW(Layout::channels_last(9), Error);
  EXPECT_THROW(Layout::tiled(1, 2, 2), Error);
}

TEST(Layout, KnowsItsRanks) {
  EXPECT_NO_THROW(Layout::rows().check_rank(0));
  EXPECT_NO_THROW(Layout::blocked(1, 16).check_rank(2));
  EXPECT_THROW(Layout::blocked(1, 16).check_rank(1), Error);
  EXPECT_THROW(Layout::channels_last(4).check_rank(3), Error);
  EXPECT_THROW(Layout::rows().check_rank(9), Error);
  try {
    Layout::channels_last(4).check_rank(3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "layout acdb is for rank 4, the tensor has rank 3");
  }
}

TEST(Layout, PadsBlockedDims) {
  EXPECT_EQ(Layout::blocked(1, 16).padded({2, 3, 5}), Shape({2, 16, 5}));
  EXPECT_EQ(Layout::parse("ABcd4b16a4b").padded({17, 16, 1, 0}), Shape({32, 16, 1, 0}));
  EXPECT_TRUE(Layout::blocked(1, 16).has_padding({2, 3, 5}));
  EXPECT_FALSE(Layout::blocked(1, 16).has_padding({2, 32, 5}));
  EXPECT_FALSE(Layout::blocked(1, 16).has_padding({2, 0, 5}));
  EXPECT_EQ(Layout::blocked(1, 16).bytes({2, 3, 5}, 4), 2 * 16 * 5 * 4);
  EXPECT_EQ(Layout::opaque({"cpu", "w", 100}).bytes({2, 3}, 4), 100);
  EXPECT_EQ(Layout::rows().bytes({}, 8), 8);
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(Layout::blocked(0, 16).padded({kMax}), Error);
  EXPECT_THROW(Layout::rows().bytes({kMax / 2}, 4), Error);
}

TEST(Layout, ComparesByValue) {
  EXPECT_EQ(Layout({0, 1, 2}, {}), Layout::rows());
  EXPECT_EQ(Layout::opaque({"cpu", "w", 1}), Layout::opaque({"cpu", "w", 1}));
  EXPECT_NE(Layout::opaque({"cpu", "w", 1}), Layout::opaque({"cpu", "w", 2}));
  EXPECT_NE(Layout::opaque({"cpu", "w", 1}), Layout::rows());
  EXPECT_NE(Layout::blocked(1, 16), Layout::blocked(1, 8));
  EXPECT_NE(Layout::blocked(1, 16), Layout::channels_last(4));
}

TEST(Layout, LoopsFollowTheNotation) {
  const auto loops = layout_loops(Layout::parse("aCB4c2b2c"), {3, 5, 9});
  const std::vector<std::vector<std::int64_t>> expected = {
      // dim, size, dim_step, stride
      {0, 3, 1, 96}, {2, 2, 8, 48}, {1, 3, 2, 16}, {2, 4, 2, 4}, {1, 2, 1, 2}, {2, 2, 1, 1}};
  ASSERT_EQ(loops.size(), expected.size());
  for (std::size_t i = 0; i < loops.size(); ++i) {
    const LayoutLoop& loop = loops[i];
    EXPECT_EQ((std::vector<std::int64_t>{loop.dim, loop.size, loop.dim_step, loop.stride}),
              expected[i])
        << i;
  }
  EXPECT_EQ(element_offset(Layout::parse("aCB4c2b2c"), {3, 5, 9}, {1, 3, 5}),
            96 + 0 * 48 + 1 * 16 + 2 * 4 + 1 * 2 + 1);
  EXPECT_TRUE(layout_loops(Layout::rows(), {}).empty());
  EXPECT_THROW(layout_loops(Layout::opaque({"cpu", "w", 1}), {2}), Error);
}

/// Any order of `rank` dims with up to four blocks.
Layout any_layout(int rank) {
  Layout::Order order;
  order.resize(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), std::int8_t{0});
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[*rc::gen::inRange<std::size_t>(0, i)]);
  }
  Layout::Blocks blocks;
  const int count = *rc::gen::inRange(0, 5);
  for (int i = 0; i < count; ++i) {
    blocks.push_back({*rc::gen::inRange(0, rank), *rc::gen::inRange(2, 130)});
  }
  return {order, blocks};
}

RC_GTEST_PROP(LayoutProperty, WhatIsPrintedParsesBack, ()) {
  const int rank = *rc::gen::inRange(1, 9);
  const Layout layout = any_layout(rank);
  const std::string text = layout.to_string(rank);
  RC_LOG() << text;
  RC_ASSERT(Layout::parse(text) == layout);
  RC_ASSERT(Layout::parse(text).to_string(rank) == text);
}

RC_GTEST_PROP(LayoutProperty, OffsetsAreAllDifferentAndInside, ()) {
  const int rank = *rc::gen::inRange(1, 4);
  Layout::Blocks blocks;
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
    blocks.push_back({*rc::gen::inRange(0, rank), *rc::gen::inRange(2, 6)});
  }
  const Layout layout(any_layout(rank).order(rank), blocks);
  Dims sizes;
  for (int dim = 0; dim < rank; ++dim)
    sizes.push_back(*rc::gen::inRange<std::int64_t>(0, 9));
  const Shape shape(sizes);
  const Shape padded = layout.padded(shape);
  RC_PRE(padded.element_count() < 20000);
  std::vector<int> seen(static_cast<std::size_t>(padded.element_count()));
  for (std::int64_t i = 0; i < padded.element_count(); ++i) {
    Dims index;
    index.resize(static_cast<std::size_t>(rank));
    std::int64_t rest = i;
    for (int dim = rank; dim-- > 0;) {
      index[static_cast<std::size_t>(dim)] = rest % padded[dim];
      rest /= padded[dim];
    }
    ++seen.at(static_cast<std::size_t>(element_offset(layout, shape, index)));
  }
  RC_ASSERT(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
}

}  // namespace
}  // namespace tilemesh
