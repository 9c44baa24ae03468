#include "tilemesh/types/dtype.hpp"

#include <gtest/gtest.h>

#include "tilemesh/types/dtype_traits.hpp"

namespace tilemesh {
namespace {

TEST(DType, EveryTypeHasANameAndTheSizeOfItsElement) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(to_string(dtype)), dtype);
    EXPECT_EQ(is_storage(dtype), i >= kComputedDTypeCount);
    if (is_storage(dtype)) {
      EXPECT_EQ(size_of(dtype), 1);
      EXPECT_EQ(is_small_integer(dtype), to_string(dtype)[0] != 'f');
      EXPECT_FALSE(is_float(dtype) || is_integer(dtype) || is_signed_integer(dtype));
      continue;
    }
    visit_dtype(dtype, [&](auto element) {
      using T = typename decltype(element)::type;
      EXPECT_EQ(size_of(dtype), static_cast<std::int64_t>(sizeof(T))) << to_string(dtype);
      EXPECT_EQ(kDTypeOf<T>, dtype);
      EXPECT_EQ(is_integer(dtype), std::is_integral_v<T> && dtype != DType::boolean);
      EXPECT_EQ(is_signed_integer(dtype), std::is_integral_v<T> && std::is_signed_v<T>);
      EXPECT_EQ(is_float(dtype), !std::is_integral_v<T>);
    });
  }
}

TEST(DType, TheBinaryFormatsNumbersStay) {
  EXPECT_EQ(static_cast<int>(DType::f32), 0);
  EXPECT_EQ(static_cast<int>(DType::i64), 4);
  EXPECT_EQ(static_cast<int>(DType::boolean), 12);
  EXPECT_EQ(static_cast<int>(DType::f8e4m3fn), 13);
  EXPECT_EQ(static_cast<int>(DType::u2), 22);
}

TEST(DType, OtherWordsAreNone) {
  EXPECT_EQ(parse_dtype("f8"), std::nullopt);
  EXPECT_EQ(parse_dtype(""), std::nullopt);
  EXPECT_EQ(parse_dtype("F32"), std::nullopt);
  EXPECT_THROW(to_string(static_cast<DType>(kDTypeCount)), Error);
  EXPECT_THROW(size_of(static_cast<DType>(255)), Error);
}

}  // namespace
}  // namespace tilemesh
