#include "output_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tilemesh::cli {
namespace {

using ::testing::ElementsAre;

TEST(OutputNames, PlainOnesStay) {
  EXPECT_THAT(output_file_names({"y", "layer.0_out", "3-a"}),
              ElementsAre("y", "layer.0_out", "3-a"));
}

TEST(OutputNames, NoneLeavesItsFolderOrHides) {
  EXPECT_THAT(output_file_names({"../../evil", "/etc/evil", "a\\b", "a b\n"}),
              ElementsAre("_._.._evil", "_etc_evil", "a_b", "a_b_"));
  EXPECT_THAT(output_file_names({"..", ".", "", "-rf", ".bashrc"}),
              ElementsAre("_.", "_", "output", "_rf", "_bashrc"));
}

TEST(OutputNames, NoTwoAreAlike) {
  // The second cleaned is the first, and with its number the third.
  EXPECT_THAT(output_file_names({"x_", "x/", "x__1"}), ElementsAre("x_", "x__2", "x__1"));
  EXPECT_THAT(output_file_names({"x__2", "x_", "x/"}), ElementsAre("x__2", "x_", "x__3"));
  EXPECT_THAT(output_file_names({"a/b", "a_b", "a\\b"}), ElementsAre("a_b_0", "a_b", "a_b_2"));
  EXPECT_THAT(output_file_names({"Y", "y", ""}), ElementsAre("Y", "y_1", "output"));
  EXPECT_THAT(output_file_names({"", " ", "_", "output"}),
              ElementsAre("output_0", "__1", "_", "output"));
}

TEST(OutputNames, LongOnesAreCutAndToldApart) {
  const std::string same(300, 'L');
  const std::vector<std::string> files = output_file_names({same + "a", same + "b"});
  EXPECT_EQ(files[0], std::string(200, 'L'));
  EXPECT_EQ(files[1], std::string(200, 'L') + "_1");
}

}  // namespace
}  // namespace tilemesh::cli
