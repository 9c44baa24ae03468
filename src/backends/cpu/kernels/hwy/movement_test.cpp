#include <array>

#include <gtest/gtest.h>

#include "tilemesh/base/error.hpp"

#include "offers.hpp"
#include "strided_copy.hpp"
#include "testing.hpp"

namespace tilemesh::cpu::highway {
namespace {

using testing::call_of;
using testing::expect_like_reference;
using testing::laid;
using testing::Range;
using testing::rows;
using Integers = std::vector<std::int64_t>;

const std::vector<DType> kTypes = {DType::f32, DType::u8, DType::f16, DType::i64, DType::boolean};
const Layout kC16 = Layout::blocked(1, 16);

TEST(Transpose, AllOrdersAndSizes) {
  for (const DType dtype : kTypes) {
    for (const Shape& shape : {Shape{5, 7, 3}, Shape{1, 64, 33}, Shape{17, 1, 70}, Shape{0, 3, 2},
                               Shape{2, 3, 4}, Shape{19, 40, 2}}) {
      Integers order = {0, 1, 2};
      do {
        expect_like_reference(call_of("transpose", {rows(shape, dtype)}, {{"order", order}}));
      } while (std::ranges::next_permutation(order).found);
    }
    expect_like_reference(
        call_of("transpose", {rows({2, 8, 3, 16}, dtype)}, {{"order", Integers{0, 2, 1, 3}}}));
    expect_like_reference(call_of("transpose", {rows({6}, dtype)}, {{"order", Integers{0}}}));
    expect_like_reference(call_of("transpose", {rows({}, dtype)}, {{"order", Integers{}}}));
  }
}

TEST(Transpose, BigOnThreads) {
  expect_like_reference(call_of("transpose", {rows({513, 700})}, {{"order", Integers{1, 0}}}));
  expect_like_reference(
      call_of("transpose", {rows({4, 128, 12, 64})}, {{"order", Integers{0, 2, 1, 3}}}));
}

TEST(Transpose, BlockedInput) {
  expect_like_reference(
      call_of("transpose", {laid({2, 19, 3, 5}, kC16)}, {{"order", Integers{0, 2, 3, 1}}}));
  expect_like_reference(call_of("transpose", {laid({2, 19, 3, 5}, kC16)},
                                {{"order", Integers{0, 3, 1, 2}}}, Layout::channels_last(4)));
}

TEST(Convert, BetweenAllLayouts) {
  const std::vector<Layout> layouts = {Layout::rows(),
                                       Layout::channels_last(4),
                                       Layout::blocked(1, 8),
                                       kC16,
                                       Layout::blocked(0, 16),
                                       Layout::tiled(4, 8, 8),
                                       Layout::parse("dcba"),
                                       Layout::parse("ABcd16b16a"),
                                       Layout::parse("ABcd4b16a4b"),
                                       Layout::parse("ABcd16a2b"),
                                       Layout::parse("aBcd32b")};
  for (const DType dtype : {DType::f32, DType::f16, DType::i8}) {
    for (const Shape& shape : {Shape{5, 21, 6, 9}, Shape{16, 32, 3, 3}, Shape{1, 3, 8, 8},
                               Shape{0, 5, 1, 1}, Shape{2, 50, 1, 1}}) {
      for (const Layout& from : layouts) {
        for (const Layout& to : layouts) {
          expect_like_reference(call_of("convert", {laid(shape, from, dtype)}, {}, to));
        }
      }
    }
  }
}

TEST(Convert, ChangesDtypeAndLayout) {
  expect_like_reference(
      call_of("convert", {rows({2, 19, 3, 5})}, {{"to", static_cast<int>(DType::f16)}}, kC16));
  expect_like_reference(call_of("convert", {laid({2, 19, 3, 5}, kC16, DType::bf16)},
                                {{"to", static_cast<int>(DType::f32)}}));
}

TEST(Convert, BigOnThreads) {
  expect_like_reference(call_of("convert", {rows({2, 64, 56, 57})}, {}, kC16));
  expect_like_reference(call_of("convert", {laid({2, 64, 56, 57}, kC16)}));
}

TEST(Reshape, CopiesBytes) {
  expect_like_reference(
      call_of("reshape", {rows({3, 8}, DType::i64)}, {{"shape", Integers{2, 12}}}));
}

TEST(Concat, RowsAndBlocks) {
  for (const DType dtype : kTypes) {
    for (int axis = 0; axis < 3; ++axis) {
      expect_like_reference(call_of(
          "concat",
          {rows(Shape{4, 5, 6}.with(axis, 3), dtype), rows(Shape{4, 5, 6}.with(axis, 0), dtype),
           rows(Shape{4, 5, 6}.with(axis, 8), dtype)},
          {{"axis", axis}}));
    }
  }
  for (const std::int64_t channels : {16, 32, 19, 3}) {
    for (int axis = 0; axis < 4; ++axis) {
      const Shape shape = {2, channels, 3, 4};
      expect_like_reference(
          call_of("concat", {laid(shape, kC16), laid(shape.with(axis, 7), kC16), laid(shape, kC16)},
                  {{"axis", axis}}, kC16));
      expect_like_reference(call_of("concat", {laid(shape, kC16), rows(shape.with(axis, 7))},
                                    {{"axis", axis}}, Layout::channels_last(4)));
    }
  }
}

TEST(Split, RowsAndBlocks) {
  for (const DType dtype : kTypes) {
    expect_like_reference(
        call_of("split", {rows({4, 9, 6}, dtype)}, {{"axis", 1}, {"sizes", Integers{2, 0, 4, 3}}}));
  }
  OpCall call = call_of("split", {laid({2, 48, 3, 4}, kC16)},
                        {{"axis", 1}, {"sizes", Integers{16, 32}}}, kC16);
  call.outputs[1].layout = kC16;
  expect_like_reference(call);
  call = call_of("split", {laid({2, 24, 3, 4}, kC16)}, {{"axis", 1}, {"sizes", Integers{5, 19}}},
                 kC16);
  expect_like_reference(call);
}

OpCall slice_of(const OperandType& type, Integers starts, Integers ends, Integers axes,
                Integers steps, const Layout& layout = {}) {
  return call_of("slice", {type},
                 {{"starts", std::move(starts)},
                  {"ends", std::move(ends)},
                  {"axes", std::move(axes)},
                  {"steps", std::move(steps)}},
                 layout);
}

TEST(Slice, StepsOfBothSigns) {
  for (const DType dtype : kTypes) {
    const OperandType x = rows({10, 7, 9}, dtype);
    expect_like_reference(slice_of(x, {2, 1}, {9, 7}, {0, 2}, {1, 1}));
    expect_like_reference(slice_of(x, {9, 6}, {-1, 0}, {0, 1}, {-1, -2}));
    expect_like_reference(slice_of(x, {3}, {3}, {1}, {1}));
    expect_like_reference(slice_of(x, {1, 0, 0}, {8, 7, 9}, {0, 1, 2}, {3, 2, 4}));
    expect_like_reference(slice_of(x, {4}, {5}, {2}, {INT64_MAX}));
  }
  const OperandType blocked = laid({2, 40, 6, 5}, kC16);
  expect_like_reference(slice_of(blocked, {16}, {40}, {1}, {1}, kC16));
  expect_like_reference(slice_of(blocked, {5}, {33}, {1}, {1}, kC16));
  expect_like_reference(slice_of(blocked, {1, 4}, {5, -1}, {2, 3}, {2, -2}, kC16));
  EXPECT_NE(testing::refusal_of(slice_of(blocked, {0}, {40}, {1}, {2}, kC16)), "");
}

TEST(Expand, RepeatsDims) {
  for (const DType dtype : kTypes) {
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{5}, Shape{3, 1}, Shape{1, 4, 1, 5}}) {
      expect_like_reference(
          call_of("expand", {rows(shape, dtype)}, {{"shape", Integers{2, 4, 3, 5}}}));
    }
  }
  expect_like_reference(
      call_of("expand", {laid({2, 19, 1, 1}, kC16)}, {{"shape", Integers{2, 19, 3, 5}}}, kC16));
  expect_like_reference(
      call_of("expand", {rows({1, 1, 1})}, {{"shape", Integers{2, 19, 3, 5}}}, kC16));
}

TEST(Tile, RepeatsBlocks) {
  for (const DType dtype : kTypes) {
    expect_like_reference(
        call_of("tile", {rows({2, 3, 5}, dtype)}, {{"repeats", Integers{2, 1, 3}}}));
    expect_like_reference(call_of("tile", {rows({4}, dtype)}, {{"repeats", Integers{0}}}));
    expect_like_reference(call_of("tile", {rows({1, 1}, dtype)}, {{"repeats", Integers{4, 7}}}));
  }
}

TEST(Pad, ConstantsAndCrops) {
  for (const DType dtype : kTypes) {
    const OperandType x = rows({2, 3, 5}, dtype);
    expect_like_reference(call_of("pad", {x}, {{"pads", Integers{0, 1, 2, 1, 0, 3}}}));
    expect_like_reference(
        call_of("pad", {x, rows({}, dtype)}, {{"pads", Integers{1, 1, 0, 1, 2, 3}}}));
    expect_like_reference(
        call_of("pad", {x, rows({1}, dtype)}, {{"pads", Integers{0, -1, 2, 0, 1, -3}}}));
    expect_like_reference(
        call_of("pad", {x, rows({}, dtype)}, {{"pads", Integers{0, 4, 0, 0, -3, 0}}}));
  }
  expect_like_reference(call_of("pad", {rows({0, 2}), rows({})}, {{"pads", Integers{1, 1, 1, 1}}}));
  expect_like_reference(call_of("pad", {laid({2, 19, 3, 4}, kC16), rows({})},
                                {{"pads", Integers{0, 0, 1, 2, 0, 0, 1, 0}}}, kC16));
  expect_like_reference(call_of("pad", {laid({1, 19, 3, 4}, kC16), rows({})},
                                {{"pads", Integers{0, 3, 1, 2, 0, 5, 1, 0}}}, kC16));
}

TEST(Pad, MirrorsEdgesAndWraps) {
  for (const char* mode : {"reflect", "edge", "wrap"}) {
    for (const DType dtype : {DType::f32, DType::u8, DType::i64}) {
      for (const Integers& pads :
           {Integers{0, 2, 3, 0, 1, 4}, Integers{0, 0, 0, 0, 0, 64}, Integers{1, 9, 0, 0, 0, 13},
            Integers{0, -1, 2, 0, 3, -2}, Integers{0, 0, 0, 0, 0, 0}}) {
        expect_like_reference(
            call_of("pad", {rows({2, 3, 5}, dtype)}, {{"pads", pads}, {"mode", mode}}));
      }
      expect_like_reference(call_of("pad", {rows({1, 576}, dtype)},
                                    {{"pads", Integers{0, 0, 0, 64}}, {"mode", mode}}));
      expect_like_reference(
          call_of("pad", {rows({1, 1}, dtype)}, {{"pads", Integers{2, 1, 0, 3}}, {"mode", mode}}));
    }
    expect_like_reference(call_of("pad", {laid({2, 19, 3, 4}, kC16)},
                                  {{"pads", Integers{0, 0, 1, 2, 0, 0, 1, 0}}, {"mode", mode}},
                                  kC16));
  }
}

TEST(Pad, PlansWithoutCountingElements) {
  constexpr std::int64_t kMany = std::int64_t{1} << 39;
  for (const char* mode : {"reflect", "edge"}) {
    const OpCall call =
        call_of("pad", {rows({1, 1})}, {{"pads", Integers{0, 0, 0, kMany}}, {"mode", mode}});
    EXPECT_NE(offer_pad(call, {}).kernel, nullptr) << mode;
  }
  const OpCall refused =
      call_of("pad", {rows({2})}, {{"pads", Integers{0, kMany}}, {"mode", std::string("wrap")}});
  EXPECT_EQ(offer_pad(refused, {}).refusal, "too many repetitions");
}

TEST(DepthAndSpace, BothWays) {
  for (const char* mode : {"DCR", "CRD"}) {
    expect_like_reference(
        call_of("depth_to_space", {rows({2, 12, 3, 5})}, {{"blocksize", 2}, {"mode", mode}}));
  }
  expect_like_reference(call_of("space_to_depth", {rows({2, 3, 6, 9})}, {{"blocksize", 3}}));
}

TEST(Gather, PicksRows) {
  for (const DType dtype : kTypes) {
    for (const DType index : {DType::i64, DType::i32}) {
      for (int axis = 0; axis < 3; ++axis) {
        expect_like_reference(
            call_of("gather", {rows({4, 5, 6}, dtype), rows({2, 3}, index)}, {{"axis", axis}}),
            {Range{}, Range{.low = -4, .high = 3}});
      }
      expect_like_reference(call_of("gather", {rows({7}, dtype), rows({}, index)}, {{"axis", 0}}));
    }
  }
}

TEST(Gather, IndicesOutsideAreErrors) {
  const auto kernel =
      testing::kernel_of(call_of("gather", {rows({4}), rows({1}, DType::i64)}, {{"axis", 0}}));
  std::array<float, 4> data{1, 2, 3, 4};
  std::int64_t index = 4;
  float result = 0;
  const std::array<std::byte*, 3> operands{reinterpret_cast<std::byte*>(data.data()),
                                           reinterpret_cast<std::byte*>(&index),
                                           reinterpret_cast<std::byte*>(&result)};
  EXPECT_THROW(kernel->run(operands.data(), nullptr), Error);
  index = -4;
  kernel->run(operands.data(), nullptr);
  EXPECT_EQ(result, 1.0f);
}

}  // namespace
}  // namespace tilemesh::cpu::highway
