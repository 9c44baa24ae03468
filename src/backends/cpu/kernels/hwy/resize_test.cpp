#include <gtest/gtest.h>

#include "testing.hpp"

namespace tilemesh::cpu::highway {
namespace {

using testing::call_of;
using testing::expect_like_reference;
using testing::laid;
using testing::Range;
using testing::rows;
using testing::Tolerance;

OpCall resize_of(const OperandType& x, const std::vector<std::int64_t>& sizes, const char* mode,
                 const char* coordinate, const char* rounding = "round_prefer_floor") {
  return call_of(
      "resize", {x},
      {{"mode", mode}, {"coordinate", coordinate}, {"nearest_mode", rounding}, {"sizes", sizes}},
      x.layout);
}

const char* const kCoordinates[] = {"half_pixel", "pytorch_half_pixel", "align_corners",
                                    "asymmetric"};

TEST(Resize, NearestInAllRoundings) {
  for (const char* coordinate : kCoordinates) {
    for (const char* rounding : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) {
      for (const std::vector<std::int64_t>& sizes :
           std::vector<std::vector<std::int64_t>>{{2, 3, 10, 14}, {2, 3, 5, 3}, {2, 3, 1, 20}}) {
        expect_like_reference(
            resize_of(rows({2, 3, 5, 7}), sizes, "nearest", coordinate, rounding));
      }
    }
  }
}

TEST(Resize, LinearUpAndDown) {
  for (const char* coordinate : kCoordinates) {
    for (const std::vector<std::int64_t>& sizes :
         std::vector<std::vector<std::int64_t>>{{2, 3, 10, 14}, {2, 3, 4, 3}, {2, 3, 1, 20}}) {
      expect_like_reference(resize_of(rows({2, 3, 5, 7}), sizes, "linear", coordinate));
    }
  }
}

TEST(Resize, OddValuesStayWhatTheyAre) {
  constexpr Range kSpecials{.specials = true};
  // The largest numbers may cancel but for their rounding: NaN and infinities are what counts here.
  constexpr Tolerance kLoose{.relative = 1e-5, .absolute = 1e33};
  for (const char* coordinate : kCoordinates) {
    for (const std::vector<std::int64_t>& sizes :
         std::vector<std::vector<std::int64_t>>{{9, 3, 10, 14}, {9, 3, 4, 3}, {9, 3, 5, 20}}) {
      expect_like_reference(resize_of(rows({9, 3, 5, 7}), sizes, "linear", coordinate), {kSpecials},
                            kLoose);
    }
  }
  const OperandType pixels = laid({9, 16, 3, 4}, Layout::channels_last(4));
  expect_like_reference(resize_of(pixels, {9, 16, 6, 8}, "linear", "half_pixel"), {kSpecials},
                        kLoose);
}

TEST(Resize, OneDimAndManyTypes) {
  for (const DType dtype : {DType::u8, DType::f16, DType::i64, DType::f32}) {
    expect_like_reference(
        resize_of(rows({2, 3, 7}, dtype), {2, 3, 21}, "nearest", "asymmetric", "floor"));
  }
  expect_like_reference(resize_of(rows({2, 3, 7}), {2, 3, 11}, "linear", "half_pixel"));
  expect_like_reference(resize_of(rows({5, 7}), {5, 11}, "linear", "half_pixel"));
}

TEST(Resize, PixelsOfManyChannels) {
  for (const std::int64_t channels : {16, 32, 19, 3}) {
    for (const Layout& layout :
         {Layout::blocked(1, 16), Layout::blocked(1, 8), Layout::channels_last(4)}) {
      const OperandType x = laid({2, channels, 5, 6}, layout);
      expect_like_reference(resize_of(x, {2, channels, 10, 12}, "nearest", "asymmetric", "floor"));
      expect_like_reference(resize_of(x, {2, channels, 11, 9}, "linear", "half_pixel"));
    }
  }
}

TEST(Resize, BigOnThreads) {
  expect_like_reference(
      resize_of(rows({2, 32, 40, 50}), {2, 32, 80, 100}, "nearest", "asymmetric", "floor"));
  expect_like_reference(resize_of(rows({2, 32, 40, 50}), {2, 32, 80, 99}, "linear", "half_pixel"));
}

TEST(Resize, RareFormsAreLeftToOthers) {
  EXPECT_NE(testing::refusal_of(resize_of(rows({1, 1, 4, 4}), {1, 1, 8, 8}, "cubic", "half_pixel")),
            "");
  EXPECT_NE(
      testing::refusal_of(resize_of(rows({1, 2, 4, 4}), {1, 4, 8, 8}, "linear", "half_pixel")), "");
}

}  // namespace
}  // namespace tilemesh::cpu::highway
