#include "tilemesh/base/close_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tilemesh {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CloseNames, TheMostAlikeComesFirst) {
  EXPECT_THAT(close_names("matmul_2", {"relu", "matmul_1", "matmul_12", "matmul_2.bias"}),
              ElementsAre("matmul_1", "matmul_12", "matmul_2.bias"));
  EXPECT_THAT(close_names("wieght", {"weight", "bias", "x"}), ElementsAre("weight"));
  EXPECT_THAT(close_names("RELU", {"relu"}), ElementsAre("relu"));
}

TEST(CloseNames, SwappedLettersAreOneMistake) {
  EXPECT_THAT(close_names("paln", {"plan", "query"}), ElementsAre("plan"));
  EXPECT_THAT(close_names("--dmi", {"--dim", "--json"}), ElementsAre("--dim"));
}

TEST(CloseNames, NothingAlikeIsNothing) {
  EXPECT_THAT(close_names("attention", {"relu", "a", "ten", ""}), IsEmpty());
  EXPECT_THAT(close_names("", {"relu", ""}), IsEmpty());
  EXPECT_THAT(close_names("a", {}), IsEmpty());
}

TEST(CloseNames, EachIsSaidOnceAndNotTooMany) {
  EXPECT_THAT(close_names("ab", {"abc", "abc", "abd"}, 1), ElementsAre("abc"));
  EXPECT_THAT(close_names("ab", {"abc", "abc"}), ElementsAre("abc"));
}

TEST(CloseNames, LongNamesAreSearchedOnly) {
  const std::string prefix(1000, 'a');
  EXPECT_THAT(close_names(prefix + "b", {prefix + "c"}), IsEmpty());
  EXPECT_THAT(close_names(prefix, {prefix + "c"}), ElementsAre(prefix + "c"));
}

TEST(CloseNames, AreAskedAbout) {
  EXPECT_EQ(did_you_mean("rel", {"relu", "y"}), "; did you mean \"relu\"?");
  EXPECT_EQ(did_you_mean("rel", {}), "");
}

}  // namespace
}  // namespace tilemesh
