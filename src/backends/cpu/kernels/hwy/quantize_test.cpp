#include <gtest/gtest.h>

#include "testing.hpp"

/// Quantization and products of integers: every bit is the reference's.
namespace tilemesh::cpu::highway {
namespace {

using testing::absent;
using testing::call_of;
using testing::expect_like_reference;
using testing::laid;
using testing::Range;
using testing::rows;
using Integers = std::vector<std::int64_t>;

constexpr Range kReals{.low = -40, .high = 40, .specials = true};
constexpr Range kScales{.low = 0.05, .high = 2};
constexpr Range kBytes{.low = 0, .high = 255};
constexpr Range kSigned{.low = -128, .high = 127};
constexpr Range kSums{.low = -70000, .high = 70000};

Range range_of(DType dtype) {
  return dtype == DType::u8 ? kBytes : kSigned;
}

Attributes to(DType dtype) {
  return {{"dtype", static_cast<std::int64_t>(dtype)}};
}

TEST(QuantizeKernel, OneScaleOrOneForEachChannel) {
  for (const DType dtype : {DType::u8, DType::i8, DType::u16, DType::i16}) {
    const Range zeros = range_of(dtype);
    expect_like_reference(call_of("quantize", {rows({531}), rows({})}, to(dtype)),
                          {kReals, kScales});
    expect_like_reference(call_of("quantize", {rows({3, 41}), rows({3, 1}), rows({3, 1}, dtype)}),
                          {kReals, kScales, zeros});
    expect_like_reference(call_of("quantize", {rows({7, 41}), rows({41}), rows({}, dtype)}),
                          {kReals, kScales, zeros});
    expect_like_reference(call_of("dequantize", {rows({531}, dtype), rows({}), rows({}, dtype)}),
                          {zeros, kScales, zeros}, {0, 0});
    expect_like_reference(
        call_of("dequantize", {rows({3, 41}, dtype), rows({41}), rows({41}, dtype)}),
        {zeros, kScales, zeros}, {0, 0});
    expect_like_reference(call_of("requantize", {rows({3, 41}, DType::i32), rows({3, 1}),
                                                 rows({}, dtype), rows({3, 1}, DType::i32)}),
                          {kSums, Range{.low = 1e-4, .high = 1e-2}, zeros, kSums});
    expect_like_reference(
        call_of("requantize", {rows({531}, DType::i32), rows({}), absent()}, to(dtype)),
        {kSums, Range{.low = 1e-4, .high = 1e-2}, zeros});
  }
}

TEST(QuantizeKernel, SumsAndProducts) {
  constexpr Range kHalves{.low = -1, .high = 1};
  for (const DType dtype : {DType::u8, DType::i8, DType::u16, DType::i16}) {
    const Range x = range_of(dtype);
    const std::pair<Shape, Shape> pairs[] = {
        {{531}, {531}}, {{3, 41}, {}}, {{}, {3, 41}}, {{3, 41}, {41}}, {{3, 41}, {3, 1}}};
    for (const auto& [a, b] : pairs) {
      expect_like_reference(
          call_of("quantized_add", {rows(a, dtype), rows(b, dtype), rows({}), rows({}), rows({})}),
          {x, x, kScales, kScales, kHalves});
      expect_like_reference(call_of("quantized_mul", {rows(a, dtype), rows(b, dtype), rows({}),
                                                      rows({}), rows({}, dtype), rows({}, dtype)}),
                            {x, x, Range{.low = 1e-3, .high = 1e-2}, kHalves, x, x});
    }
    expect_like_reference(
        call_of("quantized_mul", {rows({37}, dtype), rows({37}, dtype), rows({37}), rows({37})}),
        {x, x, Range{.low = 1e-3, .high = 1e-2}, kHalves});
  }
}

TEST(QuantizeKernel, OtherReals) {
  expect_like_reference(call_of("quantize", {rows({531}, DType::i32), rows({})}), {kSums, kScales});
  for (const DType half : {DType::f16, DType::bf16}) {
    expect_like_reference(call_of("quantize", {rows({531}, half), rows({}, half)}),
                          {kReals, kScales});
    expect_like_reference(call_of("dequantize", {rows({531}, DType::i8), rows({}, half)}),
                          {kSigned, kScales});
  }
  expect_like_reference(call_of("dequantize", {rows({531}, DType::i32), rows({})}),
                        {kSums, kScales}, {0, 0});
}

TEST(QuantizeKernel, LayoutsKeepTheirPaddingZero) {
  const Layout blocked = Layout::blocked(1, 16);
  const Shape shape{2, 19, 3, 5};
  for (const Layout& layout : {blocked, Layout::channels_last(4)}) {
    expect_like_reference(
        call_of("quantize", {laid(shape, layout), rows({}), rows({}, DType::u8)}, {}, layout),
        {kReals, kScales, kBytes});
    expect_like_reference(
        call_of("dequantize",
                {laid(shape, layout, DType::u8), rows({19, 1, 1}), rows({19, 1, 1}, DType::u8)}, {},
                layout),
        {kBytes, kScales, kBytes}, {0, 0});
  }
}

TEST(QuantizeKernel, Blocks) {
  const Attributes blocks = {{"axis", std::int64_t{1}}, {"block_size", std::int64_t{4}}};
  expect_like_reference(
      call_of("dequantize",
              {rows({3, 12, 5}, DType::u8), rows({3, 3, 5}), rows({3, 3, 5}, DType::u8)}, blocks),
      {kBytes, kScales, kBytes}, {0, 0});
  expect_like_reference(call_of("quantize", {rows({3, 12, 5}), rows({3, 3, 5})}, blocks),
                        {kReals, kScales});
  EXPECT_EQ(testing::refusal_of(call_of("quantize", {rows({3, 10, 5}), rows({3, 3, 5})}, blocks)),
            "a last block that isn't whole");
}

Attributes plain() {
  return {{"transpose_a", std::int64_t{0}}, {"transpose_b", std::int64_t{0}}};
}

TEST(MatMulIntegerKernel, SizesAndZeroPoints) {
  for (const DType a : {DType::u8, DType::i8}) {
    for (const DType b : {DType::u8, DType::i8}) {
      const std::vector<Range> ranges = {range_of(a), range_of(b), range_of(a), range_of(b)};
      expect_like_reference(call_of("matmul_integer", {rows({1, 7}, a), rows({7, 3}, b)}, plain()),
                            {ranges[0], ranges[1]});
      expect_like_reference(
          call_of("matmul_integer",
                  {rows({29, 40}, a), rows({40, 67}, b), rows({}, a), rows({}, b)}, plain()),
          ranges);
      expect_like_reference(
          call_of("matmul_integer",
                  {rows({2, 5, 33}, a), rows({33, 64}, b), rows({5, 1}, a), rows({64}, b)},
                  plain()),
          ranges);
      expect_like_reference(
          call_of("matmul_integer",
                  {rows({2, 1, 5, 33}, a), rows({3, 33, 20}, b), absent(), rows({20}, b)}, plain()),
          ranges);
    }
  }
}

TEST(MatMulIntegerKernel, DeepSumsWrapAndSumsOfNothingAreZero) {
  // Deeper than a panel; all of the largest products overflow 32 bits.
  expect_like_reference(
      call_of("matmul_integer", {rows({3, 40001}, DType::u8), rows({40001, 5}, DType::u8)},
              plain()),
      {Range{.low = 255, .high = 255}});
  expect_like_reference(
      call_of("matmul_integer", {rows({3, 0}, DType::u8), rows({0, 5}, DType::u8)}, plain()));
}

Attributes window(const Integers& strides, const Integers& pads, const Integers& dilations,
                  std::int64_t group = 1) {
  return {{"strides", strides}, {"pads", pads}, {"dilations", dilations}, {"group", group}};
}

TEST(ConvIntegerKernel, Windows) {
  const std::vector<Range> ranges = {kBytes, kSigned, kBytes, kSigned};
  const auto expect = [&](const Shape& x, const Shape& w, const Attributes& attributes) {
    Dims filters;
    filters.resize(static_cast<std::size_t>(w.rank()), 1);
    filters[0] = w[0];
    expect_like_reference(call_of("conv_integer",
                                  {rows(x, DType::u8), rows(w, DType::i8), rows({}, DType::u8),
                                   rows(Shape(filters), DType::i8)},
                                  attributes),
                          ranges);
    expect_like_reference(
        call_of("conv_integer", {rows(x, DType::i8), rows(w, DType::u8)}, attributes),
        {kSigned, kBytes});
  };
  expect({2, 3, 9, 11}, {8, 3, 3, 3}, window({1, 1}, {1, 1, 1, 1}, {1, 1}));
  expect({1, 5, 12, 13}, {6, 5, 3, 2}, window({2, 3}, {0, 2, 1, 1}, {2, 1}));
  expect({2, 16, 7, 7}, {20, 16, 1, 1}, window({1, 1}, {0, 0, 0, 0}, {1, 1}));
  expect({2, 6, 40}, {8, 3, 5}, window({1}, {2, 2}, {1}, 2));
  expect({1, 8, 15, 33}, {8, 1, 3, 3}, window({1, 1}, {1, 1, 1, 1}, {1, 1}, 8));
  expect({1, 8, 15, 33}, {16, 1, 3, 3}, window({2, 2}, {1, 1, 1, 1}, {1, 1}, 8));
  expect({1, 2, 4, 5, 6}, {4, 2, 2, 3, 3}, window({1, 2, 1}, {1, 0, 1, 1, 1, 1}, {1, 1, 2}));
  expect({1, 130, 6, 6}, {5, 130, 3, 3}, window({1, 1}, {3, 3, 3, 3}, {1, 1}));  // deep panels
}

}  // namespace
}  // namespace tilemesh::cpu::highway
