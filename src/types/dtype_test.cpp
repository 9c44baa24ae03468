#include "tilemesh/types/dtype.hpp"

#include <gtest/gtest.h>

#include "tilemesh/types/dtype_traits.hpp"

namespace tilemesh {
namespace {

TEST(DType, EveryTypeHasANameAndTheSizeOfItsElement) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(to_string(dtype)), dtype);
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
}

TEST(DType, OtherWordsAreNone) {
  EXPECT_EQ(parse_dtype("f8"), std::nullopt);
  EXPECT_EQ(parse_dtype(""), std::nullopt);
  EXPECT_EQ(parse_dtype("F32"), std::nullopt);
  EXPECT_THROW(to_string(static_cast<DType>(13)), Error);
  EXPECT_THROW(size_of(static_cast<DType>(255)), Error);
}

}  // namespace
}  // namespace tilemesh
