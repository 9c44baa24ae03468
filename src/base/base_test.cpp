#include <gtest/gtest.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/inline_vector.hpp"
#include "tilemesh/base/math.hpp"
#include "tilemesh/base/status.hpp"

namespace tilemesh {
namespace {

TEST(Error, ContextComesFirstAndTheCodeStays) {
  const Error error = Error(ErrorCode::mismatch, "wants 2, got 3").in("program \"p\"");
  EXPECT_EQ(error.code(), ErrorCode::mismatch);
  EXPECT_STREQ(error.what(), "program \"p\": wants 2, got 3");
}

TEST(Error, AZeroByteInANameHidesNothing) {
  EXPECT_STREQ(Error(ErrorCode::io, std::string("a\0b", 3)).in("c").what(), "c: a\\x00b");
}

TEST(Error, ACheckNamesConditionAndPlace) {
  try {
    TILEMESH_CHECK(1 == 2, "numbers differ");
    FAIL() << "the check let a false condition pass";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::internal);
    EXPECT_NE(std::string(error.what()).find("1 == 2"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("base_test.cpp"), std::string::npos);
  }
}

TEST(Status, CopiesShareTheFirstCause) {
  const Status failed = Error(ErrorCode::kernel_failed, "broken");
  const Status copy = failed;
  EXPECT_EQ(&failed.error(), &copy.error());
  EXPECT_TRUE(Status().ok());
  EXPECT_THROW(copy.throw_if_failed(), Error);
}

TEST(Status, ForeignExceptionsKeepTheirText) {
  const auto status = Status::from_exception(
      std::make_exception_ptr(std::runtime_error("from below")), ErrorCode::kernel_failed);
  EXPECT_EQ(status.error().code(), ErrorCode::kernel_failed);
  EXPECT_STREQ(status.error().what(), "from below");
}

TEST(Math, NarrowAndProductsRefuseWhatDoesNotFit) {
  EXPECT_EQ(narrow<int>(std::int64_t{7}), 7);
  EXPECT_THROW(narrow<int>(std::int64_t{1} << 40), Error);
  EXPECT_THROW(narrow<std::size_t>(-1), Error);
  EXPECT_THROW(checked_mul(std::int64_t{1} << 40, std::int64_t{1} << 40), Error);
  EXPECT_EQ(round_up(13, 8), 16);
}

TEST(InlineVector, GrowsInsertsErasesAndSaysWhenFull) {
  InlineVector<int, 3> v{1, 3};
  v.insert(1, 2);
  EXPECT_EQ(v, (InlineVector<int, 3>{1, 2, 3}));
  EXPECT_THROW(v.push_back(4), Error);
  v.erase(0);
  EXPECT_EQ(v, (InlineVector<int, 3>{2, 3}));
}

}  // namespace
}  // namespace tilemesh
